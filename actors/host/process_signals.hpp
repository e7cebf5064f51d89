#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace ftrt::host {

// Sends a signal by pidfd, so that it can never hit a stranger who got the number of a dead
// process.
inline void send_signal(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

// "killed by signal 9 (SIGKILL)", "exited with code 3".
[[nodiscard]] std::string describe_wait_status(int wait_status);

}  // namespace ftrt::host
