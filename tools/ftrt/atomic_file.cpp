#include "tools/ftrt/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace ftrt::cli {
namespace {

namespace fs = std::filesystem;

class open_file {
 public:
  explicit open_file(int fd) : fd_(fd) {}
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

bool is_special(const fs::path& file) {
  std::error_code failed;
  const auto status = fs::status(file, failed);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// A name in the same folder (rename cannot cross file systems) that no other process uses.
std::string temporary_for(const fs::path& file) {
  return (folder_of(file) / ("." + file.filename().string() + ".XXXXXX")).string();
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// mkstemp() asks for 0600; a result that others may read honours the umask as any new file does.
void apply_umask(int fd) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd, 0666 & ~mask);
}

int sync_folder(const fs::path& folder) {
  const open_file directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory.get() >= 0 && ::fsync(directory.get()) == 0 ? 0 : errno;
}

int write_directly(const fs::path& file, std::string_view text) {
  const open_file target(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return target.get() < 0 ? errno : write_all(target.get(), text);
}

int fill_temporary(int fd, std::string_view text) {
  apply_umask(fd);
  if (const int failed = write_all(fd, text); failed != 0) return failed;
  return ::fsync(fd) == 0 ? 0 : errno;
}

int replace(const fs::path& file, std::string_view text) {
  std::string temporary = temporary_for(file);
  const open_file target(::mkostemp(temporary.data(), O_CLOEXEC));
  if (target.get() < 0) return errno;
  int failed = fill_temporary(target.get(), text);
  if (failed == 0 && ::rename(temporary.c_str(), file.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(temporary.c_str());
    return failed;
  }
  return sync_folder(folder_of(file));
}

}  // namespace

result<void> write_atomically(const fs::path& file, std::string_view text) {
  const int failed = is_special(file) ? write_directly(file, text) : replace(file, text);
  if (failed != 0) return fail_errno("cannot write " + file.string(), failed);
  return {};
}

result<void> probe_writable(const fs::path& file) {
  std::error_code failed;
  if (is_special(file)) return {};
  if (fs::is_directory(file, failed)) return fail_errno("cannot write " + file.string(), EISDIR);
  std::string temporary = temporary_for(file);
  const open_file target(::mkostemp(temporary.data(), O_CLOEXEC));
  if (target.get() < 0) return fail_errno("cannot write " + file.string(), errno);
  ::unlink(temporary.c_str());
  return {};
}

}  // namespace ftrt::cli
