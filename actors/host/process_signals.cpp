#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <actors/host/process_signals.hpp>
#include <csignal>
#include <cstring>

namespace ftrt::host {

void send_signal(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

std::string describe_wait_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = ::sigabbrev_np(signal);
    return "killed by signal " + std::to_string(signal) + " (SIG" + (name == nullptr ? "?" : name) +
           ")";
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace ftrt::host
