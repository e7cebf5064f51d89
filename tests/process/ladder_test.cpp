// Nobody survives, and what the ranks would be restored from is damaged: each rung of the ladder of
// state is tried until one verifies, and what failed is set aside with an event.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/process/stopped_run.hpp"

namespace ftrt::test {
namespace {

// A thread that stands still while the others of its process go on.
class held_thread {
 public:
  explicit held_thread(pid_t thread) : thread_(thread) {
    held_ = ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
            ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
            ::waitpid(thread, nullptr, __WALL) == thread;
  }
  ~held_thread() { ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }
  held_thread(const held_thread&) = delete;
  held_thread& operator=(const held_thread&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  pid_t thread_;
  bool held_ = false;
};

// The control thread of a worker, its first one, is what tells of snapshots.
TEST_F(stopped_run, whose_worker_says_nothing_of_its_snapshots_has_checkpoints_all_the_same) {
  {
    const held_thread silent{workers_[1]};
    if (!silent.held()) GTEST_SKIP() << "this machine lets nobody trace";
    for (const auto worker : workers_) ::kill(worker, SIGCONT);
    ASSERT_TRUE(eventually([&] { return committed(0) > newest_ + 4 * apart; }));
    const auto before = events("checkpoint_committed").size();
    EXPECT_TRUE(eventually([&] { return events("checkpoint_committed").size() > before; }))
        << read_file(only_run(folder_.path()) / "events.jsonl");
  }
  expect_fault_free(finish());
}

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
