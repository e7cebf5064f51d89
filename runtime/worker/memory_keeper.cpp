#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <runtime/worker/memory_keeper.hpp>
#include <schemas/unique_fd.hpp>
#include <system_error>

// No sanitizer may keep its books where the keeper runs.
#define FTRT_UNSANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

namespace ftrt::worker {
namespace {

struct keeper_settings {
  alignas(16) std::array<std::byte, 16384> stack;
  int lifeline = -1;
  int owner = -1;       // a pidfd of the process whose memory the keeper holds
  int descriptors = 0;  // all that there are have a lower number
  timespec linger{};
};
keeper_settings settings;

// ---- the keeper's whole life --------------------------------------------------------------------

// It shares the variables of the thread that started it, errno among them, while that thread is at
// work. So it calls nothing of a library, not even ::syscall(), which writes errno.

// The kernel's answer: what was asked for, or a negative errno.
FTRT_UNSANITIZED long ask_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                                 long e = 0) {
#if defined(__x86_64__)
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  long answer = number;
  asm volatile("syscall"
               : "+a"(answer)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return answer;
#else
#error "how to ask the kernel without a library is known for x86_64 alone"
#endif
}

FTRT_UNSANITIZED long address_of(const void* memory) {
  return reinterpret_cast<long>(memory);
}

// Until an event, or the end of `patience`, of which the kernel takes off what has passed. False:
// the kernel refuses to wait.
FTRT_UNSANITIZED bool wait_for(pollfd* ends, long count, timespec* patience) {
  long told = -EINTR;
  while (told == -EINTR) {
    told = ask_kernel(SYS_ppoll, address_of(ends), count, address_of(patience));
  }
  return told >= 0;
}

// By number, as some sandboxes refuse close_range().
FTRT_UNSANITIZED void close_all_but_two() {
  for (int fd = 0; fd < settings.descriptors; ++fd) {
    if (fd != settings.lifeline && fd != settings.owner) ask_kernel(SYS_close, fd);
  }
}

// Nobody misses what the dead one left. Not before it is dead: the kernel writes this down for all
// processes that share a memory.
FTRT_UNSANITIZED void offer_to_oom_killer() {
  static constexpr char most[] = {'1', '0', '0', '0'};
  static constexpr char file[] = "/proc/self/oom_score_adj";
  const long fd = ask_kernel(SYS_openat, AT_FDCWD, address_of(file), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ask_kernel(SYS_write, fd, address_of(most), sizeof most);
  ask_kernel(SYS_close, fd);
}

FTRT_UNSANITIZED int keep_memory(void*) {
  close_all_but_two();
  // The end of the lifeline is told though nothing is asked for.
  pollfd ends[] = {{settings.lifeline, 0, 0}, {settings.owner, POLLIN, 0}};
  if (wait_for(ends, 2, nullptr) && ends[0].revents == 0) {
    offer_to_oom_killer();
    wait_for(ends, 1, &settings.linger);
  }
  ask_kernel(SYS_exit_group, 0);
  return 0;
}

// ---- its start ----------------------------------------------------------------------------------

timespec to_timespec(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::nanoseconds{time - seconds}.count())};
}

// One more than the greatest that this process has.
result<int> count_descriptors() {
  int greatest = -1;
  std::error_code failed;
  std::filesystem::directory_iterator all{"/proc/self/fd", failed};
  for (; !failed && all != std::filesystem::directory_iterator{}; all.increment(failed)) {
    greatest = std::max(greatest, std::atoi(all->path().filename().c_str()));
  }
  if (failed) return fail_errno("cannot list /proc/self/fd", failed.value());
  return greatest + 1;
}

// What the calling thread is for a moment, since a new process inherits it: deaf to all signals,
// and called as the keeper is. So a keeper has its name from its first moment on.
class likeness {
 public:
  likeness() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &signals_);
    ::prctl(PR_GET_NAME, name_.data());
    ::prctl(PR_SET_NAME, keeper_name);
  }
  ~likeness() {
    ::prctl(PR_SET_NAME, name_.data());
    ::sigprocmask(SIG_SETMASK, &signals_, nullptr);
  }
  likeness(const likeness&) = delete;
  likeness& operator=(const likeness&) = delete;

 private:
  sigset_t signals_{};
  std::array<char, 16> name_{};
};

result<int> start(std::array<std::byte, 16384>& stack) {
  const likeness of_the_keeper;
  const int pid =
      ::clone(keep_memory, stack.data() + stack.size(), CLONE_VM | CLONE_PARENT | SIGCHLD, nullptr);
  if (pid < 0) return fail_errno("clone of a process that keeps memory", errno);
  return pid;
}

}  // namespace

result<int> start_memory_keeper(int lifeline, std::chrono::milliseconds linger) {
  const unique_fd owner{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  if (!owner.valid()) return fail_errno("pidfd_open of this process", errno);
  const auto descriptors = count_descriptors();
  if (!descriptors) return descriptors;
  settings.lifeline = lifeline;
  settings.owner = owner.get();
  settings.descriptors = *descriptors;
  settings.linger = to_timespec(linger);
  return start(settings.stack);
}

// A join copies a gigabyte in a good part of a second, and first iterations take as long again.
std::chrono::milliseconds keeper_linger(std::uint64_t state_bytes) {
  constexpr std::uint64_t bytes_per_ms = std::uint64_t{1} << 20;
  return std::chrono::milliseconds{200 + state_bytes / bytes_per_ms};
}

}  // namespace ftrt::worker
