#include <sys/syscall.h>
#include <unistd.h>

#include <actors/host/process_state.hpp>
#include <fstream>
#include <sstream>
#include <string>

namespace ftrt::host {
namespace {

constexpr int fields_from_state_to_exit_code = 49;

// The fields after the name, which may hold anything.
std::istringstream fields_of(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  return std::istringstream{name_end == std::string::npos ? "" : line.substr(name_end + 1)};
}

bool is_unreaped(int pidfd) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0;
}

}  // namespace

std::optional<int> wait_status_of_unreaped(pid_t pid, int pidfd) {
  auto fields = fields_of(pid);
  std::string field;
  fields >> field;
  if (field != "Z") return std::nullopt;
  for (int i = 1; i < fields_from_state_to_exit_code; ++i) fields >> field;
  int status = 0;
  if (!(fields >> status) || status == 0) return std::nullopt;
  // Unreaped still, so the number was its own while it was read.
  if (!is_unreaped(pidfd)) return std::nullopt;
  return status;
}

bool is_stopped(pid_t pid) {
  std::string state;
  fields_of(pid) >> state;
  return state == "T" || state == "t";
}

}  // namespace ftrt::host
