#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <schemas/unique_fd.hpp>
#include <sstream>
#include <storage/progress.hpp>

#include "tests/process/stopped_run.hpp"

namespace ftrt::test {

namespace fs = std::filesystem;

storage::shared_memory memory_of(pid_t worker, const std::string& name) {
  for (const auto& entry : fs::directory_iterator{"/proc/" + std::to_string(worker) + "/fd"}) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with("/memfd:" + name)) continue;
    unique_fd fd{::open(entry.path().c_str(), O_RDWR | O_CLOEXEC)};
    struct stat status {};
    if (!fd.valid() || ::fstat(fd.get(), &status) != 0) continue;
    auto mapped =
        storage::shared_memory::map(std::move(fd), static_cast<std::size_t>(status.st_size),
                                    storage::shared_memory::access::read_write);
    if (mapped) return std::move(*mapped);
  }
  return {};
}

void stopped_run::SetUp() {
  process_.emplace(folder_.path(),
                   training_arguments(folder_.path(), small_scenario(folder_.path()), long_run_));
  ASSERT_TRUE(eventually([&] { return process_->worker_of(0) && process_->worker_of(1); }))
      << process_->err();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto worker = process_->worker_of(rank);
    ASSERT_TRUE(worker.has_value());
    workers_.push_back(*worker);
    progress_.push_back(memory_of(*worker, "ftrt-progress"));
    ASSERT_TRUE(progress_.back().valid());
  }
  ASSERT_TRUE(eventually([&] { return stop_between_snapshots(); }));
  // Though a worker may have been stopped before it could say that it wrote its part.
  ASSERT_TRUE(eventually([&] {
    return events("checkpoint_committed").contains("checkpoint:" + std::to_string(newest_));
  })) << read_file(only_run(folder_.path()) / "events.jsonl");
}

std::uint64_t stopped_run::committed(std::size_t rank) const {
  return storage::progress_reader{progress_[rank]}.view().committed.value();
}

bool stopped_run::stop_between_snapshots() {
  std::set<std::uint64_t> newest;
  bool between = true;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ::kill(workers_[rank], SIGSTOP);
    const auto status = "/proc/" + std::to_string(workers_[rank]) + "/stat";
    EXPECT_TRUE(eventually([&] { return read_file(status).find(") T ") != std::string::npos; }));
    const auto last = committed(rank);
    newest.insert(last - last % apart);
    between = between && last % apart != 0 && last % apart != apart - 1;
  }
  newest_ = *newest.begin();
  if (between && newest.size() == 1 && newest_ >= 2 * apart) return true;
  for (const auto worker : workers_) ::kill(worker, SIGCONT);
  return false;
}

std::set<std::string> stopped_run::events(const std::string& kind) const {
  std::set<std::string> subjects;
  std::istringstream lines{read_file(only_run(folder_.path()) / "events.jsonl")};
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("kind", "") == kind) {
      subjects.insert(event.value("subject", ""));
    }
  }
  return subjects;
}

void stopped_run::damage_snapshots() {
  constexpr std::size_t page = 4096;
  const auto memory = memory_of(workers_[0], "ftrt-snapshots");
  ASSERT_TRUE(memory.valid());
  for (std::size_t at = page + 7; at < memory.size(); at += page) memory.data()[at] ^= std::byte{1};
}

// Folders are named BRANCH-ITERATION.
void stopped_run::damage_checkpoint(std::uint64_t iteration) {
  for (const auto& entry : fs::recursive_directory_iterator{only_run(folder_.path())}) {
    const auto& path = entry.path();
    const auto of = path.parent_path().filename().string();
    if (path.extension() != ".safetensors" ||
        std::stoull(of.substr(of.find('-') + 1)) != iteration) {
      continue;
    }
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekg(-3, std::ios::end);
    const auto old = static_cast<char>(file.get());
    file.seekp(-3, std::ios::end);
    file.put(static_cast<char>(old ^ 1));
    ++damaged_files_;
  }
}

void stopped_run::kill_workers() const {
  for (const auto worker : workers_) ::kill(worker, SIGKILL);
}

finished_run stopped_run::finish() {
  auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  return done;
}

finished_run stopped_run::kill_all() {
  kill_workers();
  auto done = finish();
  EXPECT_EQ(done.summary["recoveries"].size(), 2U) << done.summary.dump(2);
  return done;
}

void stopped_run::expect_fault_free(const finished_run& done) {
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

std::string stopped_run::fault_free_digest() {
  static const std::string digest = [this] {
    const scratch_folder quiet;
    const auto plain = train(quiet.path(), small_scenario(quiet.path()), long_run_);
    EXPECT_EQ(plain.exit_code, 0) << plain.err;
    return plain.summary.value("weights_digest", "none");
  }();
  return digest;
}

}  // namespace ftrt::test
