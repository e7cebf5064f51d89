#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <schemas/unique_fd.hpp>
#include <storage/private_file.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

result<void> write_all(int fd, std::string_view text, const fs::path& file) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("writing " + file.string(), errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

result<void> replace_private_file(const fs::path& file, std::string_view text) {
  const auto draft = file.string() + ".new";
  ::unlink(draft.c_str());
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const unique_fd fd{::open(draft.c_str(), flags, 0600)};
  if (!fd.valid()) return fail_errno("creating " + draft, errno);
  auto written = write_all(fd.get(), text, draft);
  if (written && ::rename(draft.c_str(), file.c_str()) != 0) {
    written = fail_errno("renaming " + draft, errno);
  }
  if (!written) ::unlink(draft.c_str());
  return written;
}

result<std::string> read_private_file(const fs::path& file, std::uint64_t limit_bytes) {
  const unique_fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!fd.valid()) return fail_errno("opening " + file.string(), errno);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return fail_errno("fstat of " + file.string(), errno);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (!S_ISREG(found.st_mode) || size > limit_bytes) {
    return fail(error_code::corrupt, file.string() + ": expected a regular file of at most " +
                                         std::to_string(limit_bytes) +
                                         " bytes, found something else; remove it");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const auto count = ::read(fd.get(), text.data() + got, text.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("reading " + file.string(), errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return text;
}

}  // namespace ftrt::storage
