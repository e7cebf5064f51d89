#pragma once

#include <sys/types.h>

#include <string>

namespace ftrt::host {

// Sends a signal by pidfd, so that it can never hit a stranger who got the number of a dead
// process. Nothing happens where the process is gone.
void send_signal(int pidfd, int signal);

// "killed by signal 9 (SIGKILL)", "exited with code 3". `wait_status` is as waitpid() gives it.
[[nodiscard]] std::string describe_wait_status(int wait_status);

// Leaves all threads of a process the time of cores that nobody else wants, and makes them give way
// at once to whoever does (SCHED_IDLE). Needs no privilege, and cannot be taken back without. `pid`
// must be unreaped. Any thread; does not block.
void leave_only_idle_time(pid_t pid);

}  // namespace ftrt::host
