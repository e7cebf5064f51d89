#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <runtime/worker/children.hpp>
#include <runtime/worker/memory_keeper.hpp>
#include <string>
#include <system_error>

namespace ftrt::worker {
namespace {

// In the form that waitpid() gives it.
int wait_status_of(const siginfo_t& news) {
  constexpr int dumped_core = 0x80;
  if (news.si_code == CLD_EXITED) return (news.si_status & 0xff) << 8;
  return news.si_status | (news.si_code == CLD_DUMPED ? dumped_core : 0);
}

void wait_for(int pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Of a folder of /proc. Source: proc_pid_stat(5).
bool is_own_keeper(const std::filesystem::path& process) {
  std::ifstream fields{process / "stat"};
  std::string pid, name, state;
  int parent = 0;
  return fields >> pid >> name >> state >> parent && parent == ::getpid() &&
         name == "(" + std::string{keeper_name} + ")";
}

// Not from /proc/PID/task/TID/children, which not every kernel has.
std::vector<int> find_own_keepers() {
  std::vector<int> found;
  std::error_code failed;
  std::filesystem::directory_iterator all{"/proc", failed};
  for (; !failed && all != std::filesystem::directory_iterator{}; all.increment(failed)) {
    if (is_own_keeper(all->path())) found.push_back(std::atoi(all->path().filename().c_str()));
  }
  return found;
}

}  // namespace

std::optional<children::ended> children::next_ended() {
  while (true) {
    siginfo_t news{};
    const int done = ::waitid(P_ALL, 0, &news, WEXITED | WNOHANG | WNOWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 || news.si_pid == 0) return std::nullopt;
    if (const auto* worker = find(news.si_pid)) return ended{*worker, wait_status_of(news)};
    wait_for(news.si_pid);  // a keeper, or a helper that a user's library started
    std::erase(keepers_, news.si_pid);
  }
}

void children::reap(const ended& gone) {
  wait_for(gone.pid);
  std::erase_if(alive_, [&](const auto& c) { return c.pid == gone.pid; });
}

void children::kill_all() {
  for (const auto& c : alive_) ::kill(c.pid, SIGKILL);
}

// Their numbers are theirs until they are reaped, which is for us to do.
void children::kill_keepers() {
  keepers_ = find_own_keepers();
  // For a moment a worker has the name of the keeper that it starts.
  std::erase_if(keepers_, [this](int pid) { return find(pid) != nullptr; });
  for (const int pid : keepers_) ::kill(pid, SIGKILL);
}

const children::child* children::find(int pid) const {
  const auto found = std::ranges::find(alive_, pid, &child::pid);
  return found == alive_.end() ? nullptr : &*found;
}

}  // namespace ftrt::worker
