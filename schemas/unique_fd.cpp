#include <schemas/unique_fd.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ftrt {

void unique_fd::reset() {
  if (fd_ < 0) return;
  const int saved = errno;
  // Never retried: on Linux the descriptor is gone even when close() reports EINTR.
  ::close(std::exchange(fd_, -1));
  errno = saved;
}

result<unique_fd> unique_fd::duplicate() const {
  unique_fd copy{::fcntl(fd_, F_DUPFD_CLOEXEC, 0)};
  if (!copy.valid()) return fail_errno("duplicate a file descriptor", errno);
  return copy;
}

}  // namespace ftrt
