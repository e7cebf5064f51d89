#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <runtime/worker/children.hpp>

namespace ftrt::worker {

std::optional<children::reaped> children::reap() {
  while (true) {
    int status = 0;
    const auto pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return std::nullopt;
    const auto known =
        std::find_if(alive_.begin(), alive_.end(), [pid](const child& c) { return c.pid == pid; });
    if (known == alive_.end()) continue;  // a helper that a user's library started
    const reaped gone{*known, status};
    alive_.erase(known);
    return gone;
  }
}

void children::kill_all() {
  for (const auto& c : alive_) ::kill(c.pid, SIGKILL);
}

}  // namespace ftrt::worker
