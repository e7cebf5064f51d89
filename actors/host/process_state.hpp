#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace ftrt::host {

// How a process ended that its parent has not reaped yet, as waitpid() would tell the parent; the
// word of the zygote says the same, but it comes later where the zygote has to wait for a core.
// `pid` is the process that `pidfd` refers to, and poll() has said that it is over.
// nullopt: it was reaped meanwhile, or the kernel does not tell (it hides the status of what one
// may not trace behind a zero, so that an exit with code 0 is never told). Any thread; does not
// block. Source: proc_pid_stat(5), field 52.
[[nodiscard]] std::optional<int> wait_status_of_unreaped(pid_t pid, int pidfd);

// Whether a process stands still by SIGSTOP or a tracer, and so cannot answer. False also where it
// is gone. Any thread; does not block.
[[nodiscard]] bool is_stopped(pid_t pid);

// Whether the process of a pidfd has ended; false also where that is invalid. Any thread; does not
// block.
[[nodiscard]] bool has_ended(int pidfd);

// What the kernel's scheduler has given a thread since it began.
struct thread_time {
  std::chrono::nanoseconds ran{};     // on a processor
  std::chrono::nanoseconds waited{};  // for one; a wait that lasts still is added when it ends
  bool runnable = false;              // is on a processor, or waits for one
};
// nullopt: there is no such thread, or this kernel does not tell. `thread` may be anything. Any
// thread; does not block. Source: the kernel's Documentation/scheduler/sched-stats.rst.
[[nodiscard]] std::optional<thread_time> time_of_thread(pid_t pid, std::uint64_t thread);

}  // namespace ftrt::host
