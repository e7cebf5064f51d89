#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <runtime/worker/memory_keeper.hpp>
#include <schemas/unique_fd.hpp>

namespace ftrt::worker {
namespace {

// What the keeper runs on. It shares the memory of the process that it was started by, its thread's
// own variables included: so it calls nothing but the kernel.
struct keeper {
  alignas(16) std::array<std::byte, 16384> stack;
  int lifeline = -1;
  int owner = -1;  // a pidfd of the process whose memory it keeps
  timespec linger{};
};
keeper kept;

void close_all_but(unsigned first, unsigned second) {
  const auto [low, high] = std::minmax(first, second);
  if (low > 0) ::syscall(SYS_close_range, 0U, low - 1, 0U);
  if (high > low + 1) ::syscall(SYS_close_range, low + 1, high - 1, 0U);
  ::syscall(SYS_close_range, high + 1, ~0U, 0U);
}

int keep_memory(void*) {
  ::syscall(SYS_prctl, PR_SET_NAME, "ftrt-keeper", 0, 0, 0);
  close_all_but(static_cast<unsigned>(kept.lifeline), static_cast<unsigned>(kept.owner));
  // No event of the lifeline is asked for: its end is told all the same.
  std::array<pollfd, 2> ends{pollfd{kept.lifeline, 0, 0}, pollfd{kept.owner, POLLIN, 0}};
  ::syscall(SYS_ppoll, ends.data(), 2, nullptr, nullptr, 0);
  if (ends[0].revents == 0) ::syscall(SYS_ppoll, ends.data(), 1, &kept.linger, nullptr, 0);
  ::syscall(SYS_exit_group, 0);
  return 0;
}

timespec to_timespec(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::nanoseconds{time - seconds}.count())};
}

}  // namespace

result<void> start_memory_keeper(int lifeline, std::chrono::milliseconds linger) {
  const unique_fd owner{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  if (!owner.valid()) return fail_errno("pidfd_open of this process", errno);
  kept.lifeline = lifeline;
  kept.owner = owner.get();
  kept.linger = to_timespec(linger);
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const int pid = ::clone(keep_memory, kept.stack.data() + kept.stack.size(),
                          CLONE_VM | CLONE_PARENT | SIGCHLD, nullptr);
  const int why = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail_errno("clone of a memory keeper", why);
  return {};
}

}  // namespace ftrt::worker
