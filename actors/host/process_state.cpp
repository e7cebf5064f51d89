#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <actors/host/process_state.hpp>
#include <fstream>
#include <sstream>
#include <string>

namespace ftrt::host {
namespace {

constexpr int fields_from_state_to_exit_code = 49;

std::string folder_of(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}

// The fields after the name, which may hold anything.
std::istringstream fields_of(const std::string& folder) {
  std::ifstream file{folder + "/stat"};
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  return std::istringstream{name_end == std::string::npos ? "" : line.substr(name_end + 1)};
}

bool is_unreaped(int pidfd) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0;
}

// Field `index`, counted from the state's.
template <class T>
std::optional<T> field_of(const std::string& folder, int index) {
  auto fields = fields_of(folder);
  std::string field;
  for (int i = 0; i < index; ++i) fields >> field;
  T value{};
  if (!(fields >> value)) return std::nullopt;
  return value;
}

std::optional<int> exit_status(pid_t pid, int pidfd) {
  const auto status = field_of<int>(folder_of(pid), fields_from_state_to_exit_code);
  if (!status || *status == 0) return std::nullopt;
  // Unreaped still, so the number was its own while it was read.
  if (!is_unreaped(pidfd)) return std::nullopt;
  return status;
}

}  // namespace

std::optional<int> wait_status_of_unreaped(pid_t pid, int pidfd) {
  if (field_of<std::string>(folder_of(pid), 0) != "Z") return std::nullopt;
  return exit_status(pid, pidfd);
}

bool is_stopped(pid_t pid) {
  std::string state;
  fields_of(folder_of(pid)) >> state;
  return state == "T" || state == "t";
}

bool has_ended(int pidfd) {
  pollfd end{pidfd, POLLIN, 0};
  return ::poll(&end, 1, 0) == 1;
}

std::optional<thread_time> time_of_thread(pid_t pid, std::uint64_t thread) {
  const auto folder = folder_of(pid) + "/task/" + std::to_string(thread);
  std::ifstream file{folder + "/schedstat"};
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  // A kernel that keeps no account writes zeros, and who asks about a thread has seen it run.
  if (!(file >> ran >> waited) || ran == 0) return std::nullopt;
  std::string state;
  fields_of(folder) >> state;
  return thread_time{std::chrono::nanoseconds{ran}, std::chrono::nanoseconds{waited}, state == "R"};
}

}  // namespace ftrt::host
