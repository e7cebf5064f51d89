// Nobody survives, and what the ranks would be restored from is damaged: each rung of the ladder of
// state is tried until one verifies, and what failed is set aside with an event.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <schemas/unique_fd.hpp>
#include <set>
#include <sstream>
#include <storage/progress.hpp>
#include <storage/shared_memory.hpp>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;

// One of a worker's memories, as the worker itself has it.
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

// Training up to two checkpoints or more; then both workers stand still between two snapshots, and
// what control was writing is written.
class stopped_run : public ::testing::Test {
 protected:
  static constexpr std::uint64_t apart = 50;  // iterations from one checkpoint to the next

  void SetUp() override {
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
    ASSERT_TRUE(eventually([&] {
      return events("checkpoint_committed").contains("checkpoint:" + std::to_string(newest_));
    })) << process_->err();
  }

  // False, and they go on, where they happen to stand at one, or before the second.
  bool stop_between_snapshots() {
    std::set<std::uint64_t> newest;
    bool between = true;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ::kill(workers_[rank], SIGSTOP);
      const auto status = "/proc/" + std::to_string(workers_[rank]) + "/stat";
      EXPECT_TRUE(eventually([&] { return read_file(status).find(") T ") != std::string::npos; }));
      const auto committed = storage::progress_reader{progress_[rank]}.view().committed.value();
      newest.insert(committed - committed % apart);
      between = between && committed % apart != 0 && committed % apart != apart - 1;
    }
    newest_ = *newest.begin();
    if (between && newest.size() == 1 && newest_ >= 2 * apart) return true;
    for (const auto worker : workers_) ::kill(worker, SIGCONT);
    return false;
  }

  // Subjects of the events of one kind.
  [[nodiscard]] std::set<std::string> events(const std::string& kind) const {
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

  // A bit of each page of what one rank had copied.
  void damage_snapshots() {
    constexpr std::size_t page = 4096;
    const auto memory = memory_of(workers_[0], "ftrt-snapshots");
    ASSERT_TRUE(memory.valid());
    for (std::size_t at = page + 7; at < memory.size(); at += page)
      memory.data()[at] ^= std::byte{1};
  }

  // Folders are named BRANCH-ITERATION.
  void damage_checkpoint(std::uint64_t iteration) {
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

  // Both die; the run goes on to its end.
  finished_run kill_all() {
    for (const auto worker : workers_) ::kill(worker, SIGKILL);
    auto done = collect(*process_, folder_.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["recoveries"].size(), 2U) << done.summary.dump(2);
    return done;
  }

  void expect_fault_free(const finished_run& done) {
    EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
  }

  // Trained once for all tests here.
  std::string fault_free_digest() {
    static const std::string digest = [this] {
      const scratch_folder quiet;
      const auto plain = train(quiet.path(), small_scenario(quiet.path()), long_run_);
      EXPECT_EQ(plain.exit_code, 0) << plain.err;
      return plain.summary.value("weights_digest", "none");
    }();
    return digest;
  }

  const std::vector<std::string> long_run_{"train.epochs=" + std::to_string(120 / slowness),
                                           "checkpoint.keep_last=100"};
  scratch_folder folder_;
  std::optional<ftrt_process> process_;
  std::vector<pid_t> workers_;
  std::vector<storage::shared_memory> progress_;
  std::uint64_t newest_ = 0;
  std::uint64_t damaged_files_ = 0;
};

TEST_F(stopped_run, killed_by_hand_comes_back_from_the_newest_snapshot) {
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "snapshot:" + std::to_string(newest_));
    EXPECT_LT(recovery["lost_iterations"], 2 * apart);
  }
  EXPECT_TRUE(events("checkpoint_quarantined").empty());
  expect_fault_free(done);
}

TEST_F(stopped_run, with_damaged_snapshots_comes_back_from_the_checkpoint) {
  damage_snapshots();
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "checkpoint:" + std::to_string(newest_));
  }
  EXPECT_TRUE(events("checkpoint_quarantined").contains("snapshot:" + std::to_string(newest_)));
  expect_fault_free(done);
}

TEST_F(stopped_run, with_a_damaged_checkpoint_too_comes_back_from_the_one_before) {
  damage_snapshots();
  damage_checkpoint(newest_);
  EXPECT_EQ(damaged_files_, 2U) << "a file for each rank's part";
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "checkpoint:" + std::to_string(newest_ - apart));
    EXPECT_GE(recovery["lost_iterations"], apart);
  }
  const auto set_aside = events("checkpoint_quarantined");
  EXPECT_TRUE(set_aside.contains("snapshot:" + std::to_string(newest_)));
  EXPECT_TRUE(set_aside.contains("checkpoint:" + std::to_string(newest_)));
  expect_fault_free(done);
}

}  // namespace
}  // namespace ftrt::test
