#include "tools/ftrt/output.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace ftrt::cli {

void output::write(std::string_view text) {
  while (!text.empty() && !closed_) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd entry{fd_, POLLOUT, 0};
      ::poll(&entry, 1, 1000);
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE) failure_ = errno;
    }
  }
}

bool output::is_terminal() const {
  const char* kind = std::getenv("TERM");
  return ::isatty(fd_) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

int output::columns() const {
  winsize size{};
  if (::ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace ftrt::cli
