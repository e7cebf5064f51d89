#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <runtime/worker/children.hpp>

namespace ftrt::worker {
namespace {

// In the form that waitpid() gives it.
int wait_status_of(const siginfo_t& news) {
  constexpr int dumped_core = 0x80;
  if (news.si_code == CLD_EXITED) return (news.si_status & 0xff) << 8;
  return news.si_status | (news.si_code == CLD_DUMPED ? dumped_core : 0);
}

void wait_for(int pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::optional<children::ended> children::next_ended() const {
  while (true) {
    siginfo_t news{};
    const int done = ::waitid(P_ALL, 0, &news, WEXITED | WNOHANG | WNOWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 || news.si_pid == 0) return std::nullopt;
    const auto known =
        std::ranges::find_if(alive_, [&](const child& c) { return c.pid == news.si_pid; });
    if (known != alive_.end()) return ended{*known, wait_status_of(news)};
    wait_for(news.si_pid);  // a keeper, or a helper that a user's library started
  }
}

bool children::any() {
  siginfo_t news{};
  return ::waitid(P_ALL, 0, &news, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void children::reap(const ended& gone) {
  wait_for(gone.pid);
  std::erase_if(alive_, [&](const auto& c) { return c.pid == gone.pid; });
}

void children::kill_all() {
  for (const auto& c : alive_) ::kill(c.pid, SIGKILL);
}

}  // namespace ftrt::worker
