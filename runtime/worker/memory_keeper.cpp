#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <runtime/worker/memory_keeper.hpp>
#include <schemas/unique_fd.hpp>

namespace ftrt::worker {
namespace {

struct keeper {
  alignas(16) std::array<std::byte, 16384> stack;
  int lifeline = -1;
  int owner = -1;  // a pidfd of the process whose memory it keeps
  timespec linger{};
};
keeper kept;

// The keeper's whole life. It shares the variables of the thread that started it, errno among them,
// while that thread is at work: so it asks the kernel only for what cannot fail, calls nothing of a
// library, and no sanitizer may keep its books in here.
__attribute__((no_sanitize("address", "thread", "undefined"))) int keep_memory(void*) {
  ::syscall(SYS_prctl, PR_SET_NAME, "ftrt-keeper", 0, 0, 0);
  const auto first = static_cast<unsigned>(kept.lifeline < kept.owner ? kept.lifeline : kept.owner);
  const auto last = static_cast<unsigned>(kept.lifeline < kept.owner ? kept.owner : kept.lifeline);
  if (first > 0) ::syscall(SYS_close_range, 0U, first - 1, 0U);
  if (last > first + 1) ::syscall(SYS_close_range, first + 1, last - 1, 0U);
  ::syscall(SYS_close_range, last + 1, ~0U, 0U);
  // The end of the lifeline is told though nothing is asked for.
  pollfd ends[] = {{kept.lifeline, 0, 0}, {kept.owner, POLLIN, 0}};
  ::syscall(SYS_ppoll, ends, 2, nullptr, nullptr, 0);
  if (ends[0].revents == 0) ::syscall(SYS_ppoll, ends, 1, &kept.linger, nullptr, 0);
  ::syscall(SYS_exit_group, 0);
  return 0;
}

timespec to_timespec(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::nanoseconds{time - seconds}.count())};
}

// With the calling thread's signals blocked meanwhile: the keeper inherits that for good.
result<int> start(std::array<std::byte, 16384>& stack) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const int pid =
      ::clone(keep_memory, stack.data() + stack.size(), CLONE_VM | CLONE_PARENT | SIGCHLD, nullptr);
  const int why = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail_errno("clone of a process that keeps memory", why);
  return pid;
}

}  // namespace

result<int> start_memory_keeper(int lifeline, std::chrono::milliseconds linger) {
  const unique_fd owner{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  if (!owner.valid()) return fail_errno("pidfd_open of this process", errno);
  kept.lifeline = lifeline;
  kept.owner = owner.get();
  kept.linger = to_timespec(linger);
  return start(kept.stack);
}

// A join copies gigabytes in a second, and a first iteration takes as long again.
std::chrono::milliseconds keeper_linger(std::uint64_t state_bytes) {
  constexpr std::uint64_t bytes_per_ms = std::uint64_t{1} << 20;
  return std::chrono::milliseconds{200 + state_bytes / bytes_per_ms};
}

}  // namespace ftrt::worker
