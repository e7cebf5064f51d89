#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <random>
#include <storage/run_lock.hpp>
#include <string_view>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

// The file has two lines: the holder for people, then one of these.
constexpr std::string_view hold_mark = "hold ";
constexpr std::string_view over_mark = "its run is over";
constexpr std::size_t max_text = 400;
constexpr std::size_t token_length = 32;

struct flock whole_file(short type) {
  struct flock request {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  return request;  // length 0: to the end, whatever it is; pid 0, as OFD locks demand
}

std::string utc_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string make_token() {
  std::random_device random;
  std::array<char, token_length + 1> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", random(), random(), random(),
                random());
  return text.data();
}

std::string who_we_are() {
  return name_of_this_process() + " since " + utc_now() + " UTC";
}

// In one piece and then cut to length, so that a reader never finds it empty.
bool overwrite(int fd, const std::string& text) {
  return ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ::ftruncate(fd, static_cast<off_t>(text.size())) == 0;
}

// One line of it, or nothing where it has no end: that one is being written.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return {};
  const auto line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::string printable(std::string_view line) {
  std::string text{line};
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

run_holder read_holder(int fd) {
  std::array<char, max_text> text{};
  const auto got = ::pread(fd, text.data(), text.size(), 0);
  std::string_view left{text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  run_holder holder;
  holder.text = printable(take_line(left));
  if (holder.text.empty()) holder.text = "an unknown process";
  const auto mark = take_line(left);
  holder.over = mark == over_mark;
  if (mark.starts_with(hold_mark)) holder.token = printable(mark.substr(hold_mark.size()));
  return holder;
}

tl::unexpected<error> is_held(const fs::path& directory, const run_holder& holder) {
  const auto what = "the run directory " + directory.string() + " is held by " + holder.text;
  return fail(error_code::busy,
              holder.over ? what + ", whose run is over; it has to let go of it first"
                          : what + "; wait until it has ended, or stop it with `ftrt stop`");
}

}  // namespace

std::string name_of_this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "pid " + std::to_string(::getpid()) + " on " + host.data();
}

// The file is never removed: another process may be waiting at this very inode.
result<run_lock> run_lock::take(const fs::path& directory) {
  const auto file = directory / "lock";
  run_lock lock;
  lock.fd_ = unique_fd{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)};
  if (!lock.fd_.valid()) return fail_errno("opening " + file.string(), errno);
  auto request = whole_file(F_WRLCK);
  if (::fcntl(lock.fd_.get(), F_OFD_SETLK, &request) != 0) {
    if (errno != EAGAIN && errno != EACCES) return fail_errno("locking " + file.string(), errno);
    return is_held(directory, read_holder(lock.fd_.get()));
  }
  lock.token_ = make_token();
  const auto text = who_we_are() + '\n' + std::string{hold_mark} + lock.token_ + '\n';
  if (!overwrite(lock.fd_.get(), text)) return fail_errno("writing the lock file", errno);
  return lock;
}

void run_lock::say_over() const {
  if (!fd_.valid()) return;
  const auto text = read_holder(fd_.get()).text + '\n' + std::string{over_mark} + '\n';
  static_cast<void>(overwrite(fd_.get(), text));
}

std::optional<run_holder> find_holder(const fs::path& directory) {
  const unique_fd fd{
      ::open((directory / "lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!fd.valid()) return std::nullopt;
  auto request = whole_file(F_WRLCK);
  if (::fcntl(fd.get(), F_OFD_GETLK, &request) != 0 || request.l_type == F_UNLCK) {
    return std::nullopt;
  }
  return read_holder(fd.get());
}

}  // namespace ftrt::storage
