#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/process/ftrt_process.hpp"

extern char** environ;

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

struct process_row {
  pid_t parent = 0;
  char state = '?';
  std::string command;
};

std::optional<process_row> read_process(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  process_row row;
  row.command = stat.substr(open + 1, close - open - 1);
  std::istringstream rest{stat.substr(close + 1)};
  rest >> row.state >> row.parent;
  return row;
}

std::map<pid_t, process_row> all_processes() {
  std::map<pid_t, process_row> rows;
  for (const auto& entry : fs::directory_iterator{"/proc"}) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (auto row = read_process(pid)) rows[pid] = *row;
  }
  return rows;
}

// What a sanitizer said in one of the run's own texts: a worker that it ended looks like any other
// lost worker, and is replaced.
void expect_no_sanitizer_report(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator{folder, ignored}) {
    const auto extension = entry.path().extension();
    if (extension != ".log" && extension != ".txt") continue;
    const auto text = read_file(entry.path());
    for (const std::string mark : {"Sanitizer:", "Sanitizer has", "runtime error:"}) {
      const auto place = text.find(mark);
      if (place == std::string::npos) continue;
      const auto begin = place - std::min<std::size_t>(place, 200);
      ADD_FAILURE() << entry.path().filename() << ": " << text.substr(begin, 8000);
      break;
    }
  }
}

}  // namespace

scratch_folder::~scratch_folder() {
  expect_no_sanitizer_report(path());
}

ftrt_process::ftrt_process(const fs::path& folder, std::vector<std::string> arguments)
    : folder_(folder) {
  const auto program = (programs() / "ftrt").string();
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (folder / "out.txt").c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder / "err.txt").c_str(), flags, 0600);
  const int failed =
      posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error{"cannot start " + program};
}

ftrt_process::~ftrt_process() {
  if (status_) return;
  const auto family = descendants();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  const bool gone = eventually([&] {
    for (const auto pid : family) {
      const auto row = read_process(pid);
      if (row && row->state != 'Z') return false;
    }
    return true;
  });
  if (!gone) {
    for (const auto pid : family) ::kill(pid, SIGKILL);
  }
}

void ftrt_process::signal(int number) const {
  ::kill(pid_, number);
}

int ftrt_process::wait(std::chrono::seconds deadline) {
  if (status_) return *status_;
  int status = 0;
  const bool ended =
      eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, deadline);
  if (!ended) {
    ADD_FAILURE() << "ftrt did not end by its deadline; stderr:\n" << err();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *status_;
}

std::vector<pid_t> ftrt_process::descendants() const {
  return descendants_of(pid_);
}

std::vector<pid_t> descendants_of(pid_t ancestor) {
  const auto rows = all_processes();
  std::vector<pid_t> found;
  std::vector<pid_t> parents{ancestor};
  while (!parents.empty()) {
    const auto parent = parents.back();
    parents.pop_back();
    for (const auto& [pid, row] : rows) {
      if (row.parent != parent || row.state == 'Z') continue;
      found.push_back(pid);
      parents.push_back(pid);
    }
  }
  return found;
}

std::optional<pid_t> ftrt_process::worker_of(std::uint32_t rank) const {
  const auto found = descendants_named("ftrt-rank-" + std::to_string(rank));
  return found.empty() ? std::nullopt : std::optional{found.front()};
}

std::vector<pid_t> ftrt_process::descendants_named(const std::string& name) const {
  return descendants_named_of(pid_, name);
}

std::vector<pid_t> descendants_named_of(pid_t ancestor, const std::string& name) {
  std::vector<pid_t> found;
  for (const auto pid : descendants_of(ancestor)) {
    const auto row = read_process(pid);
    if (row && row->command == name) found.push_back(pid);
  }
  return found;
}

std::vector<std::string> training_arguments(const fs::path& folder, const fs::path& scenario,
                                            std::vector<std::string> sets) {
  std::vector<std::string> arguments{"--scenario", scenario.string(), "--summary",
                                     (folder / "summary.json").string()};
  // A shared machine may keep one process waiting for longer than any iteration takes; only tests
  // of hang detection are about that.
  const bool about_hangs = std::ranges::any_of(
      sets, [](const std::string& set) { return set.starts_with("supervision.hang_"); });
  if (!about_hangs) sets.push_back("supervision.hang_floor=\"20s\"");
  sets.push_back("run.directory=\"" + (folder / "runs").string() + "\"");
  for (auto& set : sets) {
    arguments.push_back("--set");
    arguments.push_back(std::move(set));
  }
  return arguments;
}

finished_run train(const fs::path& folder, const fs::path& scenario,
                   std::vector<std::string> sets) {
  ftrt_process process{folder, training_arguments(folder, scenario, std::move(sets))};
  return collect(process, folder);
}

finished_run collect(ftrt_process& process, const fs::path& folder) {
  finished_run done;
  done.exit_code = process.wait();
  done.out = process.out();
  done.err = process.err();
  const auto text = read_file(folder / "summary.json");
  if (!text.empty()) done.summary = nlohmann::json::parse(text, nullptr, false);
  return done;
}

fs::path only_run(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{folder / "runs", ignored}) return entry.path();
  return {};
}

std::uint64_t checkpoints_of(const fs::path& folder) {
  std::uint64_t count = 0;
  std::error_code ignored;
  const auto run = only_run(folder);
  if (run.empty()) return 0;
  for (const auto& entry : fs::directory_iterator{run / "checkpoints", ignored}) {
    if (fs::exists(entry.path() / "manifest.bin")) ++count;
  }
  return count;
}

fs::path scenarios() {
  return source_tree() / "scenarios";
}

fs::path small_scenario(const fs::path& folder, const std::string& more) {
  const auto file = folder / "small.toml";
  std::ofstream{file} << R"([run]
name = "small"
seed = 7
[cluster]
ranks = 2
[model]
kind = "mlp"
layers = [64, 96, 10]
dropout = 0.1
[data]
kind = "synthetic"
samples = 4000
test_samples = 512
[train]
epochs = 20
global_batch = 64
micro_batch = 16
lr = 0.05
momentum = 0.9
amp = "bf16"
evaluate_every_epochs = 5
[checkpoint]
every_iterations = 50
)" << more;
  return file;
}

}  // namespace ftrt::test
