// Workers that are alive and do nothing: found by their missing progress, named, replaced. And
// everything that only looks like it: nobody is restarted.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

using std::chrono::seconds;

class hangs : public ::testing::Test {
 protected:
  std::string fault_free_digest() {
    const scratch_folder quiet;
    const auto done = train(quiet.path(), small_scenario(quiet.path()));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["recoveries"].size(), 0U) << done.summary.dump(2);
    return done.summary.value("weights_digest", "none");
  }

  // The default, which other tests raise.
  const std::string as_shipped_ = "supervision.hang_floor=\"500ms\"";

  // The small run, or a variation of it, up to its first checkpoint.
  void begin(std::vector<std::string> sets = {}) {
    const auto scenario = small_scenario(folder_.path());
    // The first checkpoint may come before the run's own pace is known.
    sets.insert(sets.begin(), {as_shipped_, "supervision.hang_timeout_first=\"3s\""});
    process_ = std::make_unique<ftrt_process>(
        folder_.path(), training_arguments(folder_.path(), scenario, std::move(sets)));
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << err();
  }
  void begin_long_run() { begin({"train.epochs=2000"}); }

  // Signals every one of them at once.
  void signal_workers(const std::vector<std::uint32_t>& ranks, int number) {
    std::vector<pid_t> pids;
    for (const auto rank : ranks) {
      const auto pid = process_->worker_of(rank);
      ASSERT_TRUE(pid.has_value()) << "no worker of rank " << rank << "\n" << err();
      pids.push_back(*pid);
    }
    for (const auto pid : pids) ::kill(pid, number);
  }

  // Trains on for a while, then stops in order: nobody has been restarted meanwhile.
  void expect_that_nobody_was_restarted() {
    const auto before = newest_checkpoint();
    ASSERT_TRUE(eventually([&] { return newest_checkpoint() > before; })) << err();
    process_->signal(SIGTERM);
    const auto done = collect(*process_, folder_.path());
    EXPECT_EQ(done.exit_code, 143) << done.err;
    EXPECT_EQ(done.summary["recoveries"].size(), 0U) << done.summary.dump(2);
    EXPECT_EQ(done.summary["generations"], 1);
  }

  static void expect_a_hang(const nlohmann::json& recovery) {
    const std::string cause = recovery["cause"];
    EXPECT_EQ(cause.rfind("made no progress for ", 0), 0U) << cause;
    EXPECT_NE(cause.find("(limit "), std::string::npos) << cause;
  }

  [[nodiscard]] std::string newest_checkpoint() const {
    std::string newest;
    std::error_code ignored;
    const auto folder = only_run(folder_.path()) / "checkpoints";
    for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
      newest = std::max(newest, entry.path().filename().string());
    }
    return newest;
  }
  [[nodiscard]] std::string err() const { return process_->err(); }

  scratch_folder folder_;
  std::unique_ptr<ftrt_process> process_;
};

// More of them than processors, for as long as it lives.
class busy_machine {
 public:
  busy_machine() {
    const auto count = 3 * std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~busy_machine() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  busy_machine(const busy_machine&) = delete;
  busy_machine& operator=(const busy_machine&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

class hangs_of_a_rank : public hangs, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(hangs_of_a_rank, C06_a_stopped_worker_is_named_replaced_and_weights_match) {
  begin();
  signal_workers({GetParam()}, SIGSTOP);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  const auto& recovery = done.summary["recoveries"][0];
  EXPECT_EQ(recovery["rank"], GetParam());
  EXPECT_EQ(std::string{recovery["source"]}.rfind("survivor:", 0), 0U);
  EXPECT_EQ(recovery["lost_iterations"], 0);
  expect_a_hang(recovery);
  std::printf("found after %.0f ms, trains on after %.0f ms\n", double{recovery["detected_ms"]},
              double{recovery["resumed_ms"]});
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

INSTANTIATE_TEST_SUITE_P(each, hangs_of_a_rank, ::testing::Values(0U, 1U));

TEST_F(hangs, C06_two_workers_stopped_at_once_are_both_replaced_and_weights_match) {
  begin();
  signal_workers({0, 1}, SIGSTOP);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 2U) << done.summary.dump(2);
  expect_a_hang(done.summary["recoveries"][0]);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(hangs, C06_workers_that_chaos_stops_again_and_again_leave_the_weights_alone) {
  const auto scenario = small_scenario(folder_.path(),
                                       "[[chaos]]\nkind = \"stop\"\nrank = 0\nevery = 350\n"
                                       "[[chaos]]\nkind = \"stop\"\nrank = 1\nevery = 500\n");
  const auto done = train(folder_.path(), scenario, {as_shipped_});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(done.summary["recoveries"].size(), 4U) << done.summary.dump(2);
  for (const auto& recovery : done.summary["recoveries"]) expect_a_hang(recovery);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(hangs, C06_a_worker_stopped_as_soon_as_it_exists_is_found_wherever_that_is) {
  const auto scenario = small_scenario(folder_.path());
  process_ = std::make_unique<ftrt_process>(
      folder_.path(), training_arguments(folder_.path(), scenario,
                                         {"supervision.start_timeout=\"15s\"",
                                          "supervision.hang_timeout_join=\"3s\"",
                                          "supervision.hang_timeout_first=\"3s\""}));
  ASSERT_TRUE(eventually([&] { return process_->worker_of(1).has_value(); })) << err();
  signal_workers({1}, SIGSTOP);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(hangs, C05_a_stop_that_is_asked_for_while_a_rank_hangs_ends_with_a_checkpoint) {
  begin_long_run();
  signal_workers({1}, SIGSTOP);
  process_->signal(SIGTERM);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 143) << done.err;
  EXPECT_EQ(done.summary["status"], "stopped");
  EXPECT_EQ(done.summary["checkpoints"]["last_iteration"], done.summary["iterations"]);
}

// ---- what only looks like a hang ----------------------------------------------------------------

TEST_F(hangs, C06_a_control_process_that_is_stopped_for_a_while_restarts_nobody) {
  begin_long_run();
  process_->signal(SIGSTOP);
  std::this_thread::sleep_for(seconds{2});  // the passing of time is what is tested
  process_->signal(SIGCONT);
  expect_that_nobody_was_restarted();
}

TEST_F(hangs, C06_a_machine_that_stands_still_as_a_whole_restarts_nobody) {
  begin_long_run();
  const auto workers = process_->descendants();
  process_->signal(SIGSTOP);
  for (const auto pid : workers) ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(seconds{2});
  process_->signal(SIGCONT);
  for (const auto pid : workers) ::kill(pid, SIGCONT);
  expect_that_nobody_was_restarted();
}

TEST_F(hangs, C06_a_machine_that_is_far_too_busy_restarts_nobody) {
  begin_long_run();
  const busy_machine suddenly;
  std::this_thread::sleep_for(seconds{3});
  expect_that_nobody_was_restarted();
}

TEST_F(hangs, C06_an_evaluation_that_takes_far_longer_than_any_step_restarts_nobody) {
  begin({"model.layers=[64,1024,1024,10]", "train.epochs=2000", "data.samples=256",
         "data.test_samples=30000", "train.evaluate_every_epochs=1",
         "checkpoint.every_iterations=1", "supervision.hang_floor=\"200ms\""});
  expect_that_nobody_was_restarted();
}

TEST_F(hangs, C06_a_checkpoint_of_each_iteration_restarts_nobody) {
  begin({"train.epochs=2000", "checkpoint.every_iterations=1"});
  std::this_thread::sleep_for(seconds{1});
  expect_that_nobody_was_restarted();
}

TEST_F(hangs, a_worker_that_is_stopped_is_left_alone_where_the_scenario_says_so) {
  begin({"train.epochs=2000", "supervision.hang_detection=false"});
  signal_workers({1}, SIGSTOP);
  std::this_thread::sleep_for(seconds{2});
  signal_workers({1}, SIGCONT);
  expect_that_nobody_was_restarted();
}

}  // namespace
}  // namespace ftrt::test
