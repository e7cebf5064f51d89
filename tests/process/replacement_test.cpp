// No replacement left: what becomes of a run whose lost rank cannot be started again. The worker
// program is reached by a link that a test takes away, as an upgrade of the program would.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <mutex>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;

class a_lost_rank : public ::testing::Test {
 protected:
  a_lost_rank() { put_program_there(); }

  void start(replacement_policy policy, const std::string& model = "mlp") {
    auto loaded = load_scenario(small_scenario(folder_.path()),
                                {"run.directory=\"" + (folder_.path() / "runs").string() + "\"",
                                 "train.epochs=60", "supervision.hang_floor=\"20s\"",
                                 "supervision.spares=0", "supervision.backoff_max=\"200ms\""});
    if (!loaded) throw std::runtime_error{loaded.error().front().describe()};
    auto& values = loaded->values;
    values.supervision.no_replacement = policy;
    values.model.kind = model;
    if (model != "mlp") {
      values.model.layers.clear();
      values.model.dropout = 0;
    }
    run_options options;
    options.worker_program = program_;
    options.on_event = [this](const event& happened) {
      const std::lock_guard lock{mutex_};
      events_.push_back(happened);
    };
    auto started = run::start(values, options);
    if (!started) throw std::runtime_error{"not started"};
    run_ = std::move(*started);
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; }));
  }

  void put_program_there() { fs::create_symlink(FTRT_DIFFICULT_WORKER, program_); }
  void take_program_away() { fs::remove(program_); }

  static pid_t only(const std::string& name) {
    const auto found = descendants_named_of(::getpid(), name);
    if (found.size() != 1) throw std::runtime_error{"not one " + name};
    return found.front();
  }
  // The zygote is gone and cannot be replaced; then rank 1 dies.
  void lose_zygote_and_rank() {
    const auto worker = only("ftrt-rank-1");
    take_program_away();
    ::kill(only("my-worker"), SIGKILL);
    ASSERT_TRUE(
        eventually([&] { return count(event::kind::warning, "could not be replaced") > 0; }));
    ::kill(worker, SIGKILL);
  }
  // Events of one kind that say this.
  [[nodiscard]] std::size_t count(event::kind kind, const std::string& text) {
    const std::lock_guard lock{mutex_};
    return static_cast<std::size_t>(std::ranges::count_if(events_, [&](const event& each) {
      return each.what == kind && each.text.find(text) != std::string::npos;
    }));
  }
  [[nodiscard]] std::size_t false_starts() {
    return count(event::kind::worker_lost, "could not be started");
  }
  std::string fault_free_digest() {
    const scratch_folder quiet;
    return train(quiet.path(), small_scenario(quiet.path()), {"train.epochs=60"})
        .summary.value("weights_digest", "none");
  }

  const scratch_folder folder_;
  const fs::path program_ = folder_.path() / "my-worker";
  std::mutex mutex_;
  std::vector<event> events_;
  std::unique_ptr<run> run_;
};

TEST_F(a_lost_rank, that_cannot_be_started_is_waited_for_and_the_run_goes_on_when_it_can) {
  start(replacement_policy::wait);
  lose_zygote_and_rank();
  // Longer than any budget would have it.
  ASSERT_TRUE(eventually([&] { return false_starts() >= 8; }));
  EXPECT_FALSE(run_->wait_for(std::chrono::milliseconds{0}));
  put_program_there();
  const auto summary = run_->wait();
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(summary.generations, 2U);
  ASSERT_EQ(summary.recoveries.size(), 1U) << "one loss, however often nothing came of it";
  EXPECT_EQ(summary.recoveries.front().lost_iterations, 0U);
  EXPECT_EQ(summary.weights_digest, fault_free_digest());
}

TEST_F(a_lost_rank, that_is_waited_for_does_not_keep_the_run_from_stopping) {
  start(replacement_policy::wait);
  lose_zygote_and_rank();
  ASSERT_TRUE(eventually([&] { return false_starts() >= 2; }));
  put_program_there();
  run_->request_stop("test");
  const auto summary = run_->wait();
  EXPECT_EQ(summary.status, "stopped") << summary.error;
  EXPECT_EQ(summary.error, "");
}

TEST_F(a_lost_rank, that_cannot_be_started_ends_the_run_with_the_cause) {
  start(replacement_policy::stop);
  lose_zygote_and_rank();
  const auto summary = run_->wait();
  EXPECT_EQ(summary.status, "failed");
  EXPECT_NE(summary.error.find("could not be started"), std::string::npos) << summary.error;
  EXPECT_NE(summary.error.find("cannot start " + program_.string()), std::string::npos)
      << summary.error;
  // max_failures_without_progress; the count begins anew, once, where the survivor's last commit is
  // news: it is heard of when the survivor has parked, which on a busy machine some false starts
  // may come before.
  EXPECT_GE(false_starts(), 5U);
  EXPECT_LE(false_starts(), 5U + 5U);
}

TEST_F(a_lost_rank, is_forked_from_a_fresh_zygote_where_the_last_one_could_not_be_replaced) {
  start(replacement_policy::stop);
  const auto worker = only("ftrt-rank-1");
  take_program_away();
  ::kill(only("my-worker"), SIGKILL);
  ASSERT_TRUE(eventually([&] { return count(event::kind::warning, "could not be replaced") > 0; }));
  put_program_there();
  ::kill(worker, SIGKILL);
  const auto summary = run_->wait();
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(false_starts(), 0U);
  EXPECT_EQ(summary.recoveries.size(), 1U);
  EXPECT_EQ(summary.generations, 2U);
}

TEST_F(a_lost_rank, is_forked_from_a_fresh_zygote_where_the_last_one_hangs) {
  const auto trap = folder_.path() / "hang";
  ::setenv("FTRT_HANG_FORK", trap.c_str(), 1);
  start(replacement_policy::stop, "unforkable");
  std::ofstream{trap} << "now";
  ::kill(only("ftrt-rank-1"), SIGKILL);
  const auto summary = run_->wait();
  ::unsetenv("FTRT_HANG_FORK");
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(count(event::kind::warning,
                  "the zygote did not answer in time and was killed; it was replaced"),
            1U);
  EXPECT_EQ(summary.recoveries.size(), 1U);
  EXPECT_EQ(summary.generations, 2U);
}

}  // namespace
}  // namespace ftrt::test
