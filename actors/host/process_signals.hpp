#pragma once

#include <string>

namespace ftrt::host {

// Sends a signal by pidfd, so that it can never hit a stranger who got the number of a dead
// process. Nothing happens where the process is gone.
void send_signal(int pidfd, int signal);

// "killed by signal 9 (SIGKILL)", "exited with code 3". `wait_status` is as waitpid() gives it.
[[nodiscard]] std::string describe_wait_status(int wait_status);

}  // namespace ftrt::host
