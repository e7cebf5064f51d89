#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <schemas/unique_fd.hpp>
#include <storage/stop_request.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_reason = 300;
constexpr std::size_t max_request = 600;
// What a request is called by the one who reads it.
constexpr std::string_view taken_suffix = ".taken";

std::string one_line(std::string_view reason) {
  std::string line{reason.substr(0, max_reason)};
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return line;
}

// Anything but a small regular file is nothing.
std::string read_small(const fs::path& file) {
  const unique_fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
  std::array<char, max_request> text{};
  const auto got = ::read(fd.get(), text.data(), text.size());
  return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

result<void> write_stop_request(const fs::path& directory, const std::string& token,
                                const std::string& reason) {
  const auto target = directory / stop_request_name;
  auto name = target.string() + "-XXXXXX";  // a name of its own: several may ask at once
  const unique_fd fd{::mkostemp(name.data(), O_CLOEXEC)};
  if (!fd.valid()) return fail_errno("asking for a stop in " + directory.string(), errno);
  const auto text = token + '\n' + one_line(reason) + '\n';
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && ::rename(name.c_str(), target.c_str()) == 0) return {};
  const int failed = errno;
  ::unlink(name.c_str());
  return fail_errno("writing " + target.string(), failed);
}

std::optional<std::string> take_stop_request(const fs::path& directory, const std::string& token) {
  const auto file = directory / stop_request_name;
  const auto taken = file.string() + std::string{taken_suffix};
  // Renamed first: what is read is what is removed.
  if (::rename(file.c_str(), taken.c_str()) != 0) return std::nullopt;
  const auto text = read_small(taken);
  std::error_code ignored;
  fs::remove_all(taken, ignored);
  const auto end = text.find('\n');
  if (token.empty() || end == std::string::npos || text.substr(0, end) != token) {
    return std::nullopt;
  }
  return one_line(std::string_view{text}.substr(end + 1, text.find('\n', end + 1) - end - 1));
}

}  // namespace ftrt::storage
