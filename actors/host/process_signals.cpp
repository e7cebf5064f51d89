#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <actors/host/process_signals.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ftrt::host {

void send_signal(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

void leave_only_idle_time(pid_t pid) {
  const sched_param none{};
  std::error_code gone;
  const auto threads = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator{threads, gone}) {
    const auto id = std::atoi(thread.path().filename().c_str());
    if (id > 0) ::sched_setscheduler(id, SCHED_IDLE, &none);
  }
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
