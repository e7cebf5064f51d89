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

// The same of a process that was sent SIGKILL and may still be giving its memory back, which takes
// 50 ms for 500 MB: told as soon as none of its threads will ever run its program again, nor write
// to memory that it shares (but for the kernel's word that the owner of a lock died). (A device to
// which it had given work may, until `pidfd` fires.) nullopt: not yet, or the kernel does not tell.
// Any thread; may take as long as the process does to give its memory back, which the kernel leaves
// to the last one that looked. Source: proc_pid_stat(5), fields 9 and 20, and PF_EXITING of the
// kernel's <linux/sched.h>.
[[nodiscard]] std::optional<int> wait_status_of_dying(pid_t pid, int pidfd);

// Whether a process stands still by SIGSTOP or a tracer, and so cannot answer. False also where it
// is gone. Any thread; does not block.
[[nodiscard]] bool is_stopped(pid_t pid);

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
