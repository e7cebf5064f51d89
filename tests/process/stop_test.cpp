// A run is asked to stop, by `ftrt stop` or by a signal, in whatever it is just doing: all ranks
// agree on a last iteration, its checkpoint is committed, and who goes on ends with the same
// weights.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <ftrt/catalog.hpp>
#include <ftrt/run.hpp>
#include <ftrt/stop.hpp>
#include <memory>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;

// How the stop is asked for.
enum class way { command, signal };

class stops : public ::testing::TestWithParam<way> {
 protected:
  // The run at work, not waited for.
  void begin(std::vector<std::string> sets = {}, const std::string& more = "") {
    const auto scenario = small_scenario(folder_.path(), more);
    process_ = std::make_unique<ftrt_process>(
        folder_.path(), training_arguments(folder_.path(), scenario, std::move(sets)));
  }
  void until_it_has(const std::string& what, const std::function<bool()>& condition) {
    ASSERT_TRUE(eventually(condition)) << "never: " << what << "\n" << process_->err();
  }
  void until_a_checkpoint() {
    until_it_has("a checkpoint", [&] { return checkpoints_of(folder_.path()) >= 1; });
  }
  void until_an_event(const std::string& kind) {
    until_it_has(kind, [&] {
      const auto log = read_file(only_run(folder_.path()) / "events.jsonl");
      return log.find("\"kind\":\"" + kind + '"') != std::string::npos;
    });
  }

  // Asks and waits; all that must hold after any stop.
  void expect_a_stop_in_order() {
    if (GetParam() == way::command) {
      ftrt_process command{elsewhere_.path(), {"stop", "--runs-directory", runs()}};
      EXPECT_EQ(command.wait(), 0) << command.err() << process_->err();
      EXPECT_NE(command.out().find(": stopped at iteration "), std::string::npos) << command.out();
    } else {
      process_->signal(SIGTERM);
    }
    done_ = collect(*process_, folder_.path());
    EXPECT_EQ(done_.exit_code, 143) << done_.err;
    EXPECT_EQ(done_.summary["status"], "stopped") << done_.summary.dump(2);
    EXPECT_EQ(done_.summary["checkpoints"]["last_iteration"], done_.summary["iterations"]);
    const auto checkpoints = list_checkpoints(only_run(folder_.path()));
    ASSERT_TRUE(checkpoints && !checkpoints->empty());
    EXPECT_EQ(checkpoints->back().state, "verified");
    EXPECT_EQ(checkpoints->back().iteration, done_.summary["iterations"]);
  }

  // Goes on to the end, where the weights are those of a run that was never stopped.
  void expect_the_same_weights(std::vector<std::string> sets = {}) {
    ftrt_process again{
        folder_.path(),
        {"resume", "--runs-directory", runs(), "--summary",
         (folder_.path() / "summary.json").string(), "--set", "supervision.hang_floor=\"20s\""}};
    const auto resumed = collect(again, folder_.path());
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    const scratch_folder quiet;
    const auto whole = train(quiet.path(), small_scenario(quiet.path()), std::move(sets));
    EXPECT_EQ(resumed.summary["weights_digest"], whole.summary["weights_digest"]);
    EXPECT_EQ(resumed.summary["test_accuracy"], whole.summary["test_accuracy"]);
  }

  [[nodiscard]] std::string runs() const { return (folder_.path() / "runs").string(); }

  // Far longer than the test lasts.
  const std::string for_ever_ = "train.epochs=100000";
  scratch_folder folder_;
  scratch_folder elsewhere_;
  std::unique_ptr<ftrt_process> process_;
  finished_run done_;
};

TEST_P(stops, C05_while_it_starts) {
  begin({for_ever_});
  until_it_has("a run directory", [&] {
    return !only_run(folder_.path()).empty() && fs::exists(only_run(folder_.path()) / "lock");
  });
  expect_a_stop_in_order();
}

TEST_P(stops, C05_while_it_trains_and_the_weights_come_out_the_same) {
  const std::vector<std::string> long_run{"train.epochs=" + std::to_string(40 / slowness)};
  begin(long_run);
  until_a_checkpoint();
  expect_a_stop_in_order();
  expect_the_same_weights(long_run);
}

// The test set takes longer than the stop may.
TEST_P(stops, C05_while_it_evaluates) {
  begin({for_ever_, "model.layers=[64,1024,1024,10]", "data.samples=128",
         "train.evaluate_every_epochs=1", "data.test_samples=500000",
         "checkpoint.every_iterations=1",
         "supervision.stop_timeout=\"" + std::to_string(4 * slowness) + "s\""});
  until_a_checkpoint();
  expect_a_stop_in_order();
  EXPECT_EQ(done_.summary["iterations"], 2) << "stopped in the first evaluation";
}

TEST_P(stops, C05_while_it_saves_a_checkpoint) {
  begin({for_ever_, "model.layers=[64,1024,1024,10]", "checkpoint.every_iterations=1"});
  until_a_checkpoint();
  expect_a_stop_in_order();
}

TEST_P(stops, C05_while_it_recovers) {
  begin({for_ever_}, "[[chaos]]\nkind = \"kill\"\nranks = \"all\"\nat_iteration = 120\n");
  until_an_event("worker_lost");
  expect_a_stop_in_order();
}

TEST_P(stops, C05_while_a_rank_dies_again_and_again) {
  begin({for_ever_},
        "[[chaos]]\nkind = \"kill\"\nrank = 1\nevery = 3\n"
        "[supervision]\nmax_restarts = 100000\n");
  until_an_event("recovered");
  expect_a_stop_in_order();
}

TEST_P(stops, C05_while_its_supervisors_die) {
  begin({for_ever_},
        "[[chaos]]\nkind = \"kill_actor\"\nactor = \"run_supervisor\"\nevery = 5\n"
        "[[chaos]]\nkind = \"kill_actor\"\nactor = \"checkpoint\"\nevery = 7\n"
        "[supervision]\nmax_restarts = 100000\n");
  until_an_event("actor_restarted");
  expect_a_stop_in_order();
}

INSTANTIATE_TEST_SUITE_P(by, stops, ::testing::Values(way::command, way::signal),
                         [](const auto& each) {
                           return each.param == way::command ? "ftrt_stop" : "sigterm";
                         });

using stop_command = stops;

TEST_P(stop_command, C05_in_the_final_save_finds_a_run_that_is_complete_or_stopped_in_order) {
  begin({"train.epochs=2", "checkpoint.every_iterations=0", "model.layers=[64,2048,2048,10]",
         "train.max_iterations=3"});
  until_it_has("the last checkpoint's folder", [&] {
    std::error_code ignored;
    const auto run = only_run(folder_.path());
    return !run.empty() && !fs::is_empty(run / "checkpoints", ignored) && !ignored;
  });
  ftrt_process command{elsewhere_.path(), {"stop", "--runs-directory", runs()}};
  const int code = command.wait();
  done_ = collect(*process_, folder_.path());
  EXPECT_EQ(done_.exit_code, 0) << done_.err;
  // By the time it asks the run may have ended.
  EXPECT_TRUE(code == 0 || code == 2) << command.err();
  EXPECT_NE((command.out() + command.err()).find("completed at iteration 3"), std::string::npos)
      << command.out() << command.err();
}

TEST_P(stop_command, asks_and_leaves_where_nobody_wants_to_wait) {
  begin({for_ever_});
  until_a_checkpoint();
  ftrt_process command{elsewhere_.path(), {"stop", "--no-wait", "--runs-directory", runs()}};
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_NE(command.out().find("was asked to stop (pid " + std::to_string(process_->pid())),
            std::string::npos)
      << command.out();
  EXPECT_EQ(collect(*process_, folder_.path()).exit_code, 143);
}

TEST_P(stop_command, of_a_run_that_is_not_running_says_how_it_ended_and_is_2) {
  EXPECT_EQ(train(folder_.path(), small_scenario(folder_.path()), {"train.epochs=1"}).exit_code, 0);
  ftrt_process command{elsewhere_.path(), {"stop", "--runs-directory", runs()}};
  EXPECT_EQ(command.wait(), 2);
  EXPECT_NE(command.err().find("is not running: completed at iteration 63"), std::string::npos)
      << command.err();
}

TEST_P(stop_command, a_late_request_does_not_stop_the_run_that_is_taken_up_next) {
  begin({"train.epochs=10"});
  until_a_checkpoint();
  process_->signal(SIGKILL);
  process_->wait();
  // What `ftrt stop` would have left if the process had died a moment later.
  const auto lock = read_file(only_run(folder_.path()) / "lock");
  const auto mark = lock.find("hold ");
  ASSERT_NE(mark, std::string::npos) << lock;
  std::ofstream{only_run(folder_.path()) / "stop-request"} << lock.substr(mark + 5) << "late\n";
  ftrt_process again{folder_.path(), {"resume", "--runs-directory", runs()}};
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_FALSE(fs::exists(only_run(folder_.path()) / "stop-request"));
}

TEST_P(stop_command, gives_up_at_its_deadline_where_the_holder_does_not_listen) {
  begin({for_ever_});
  until_a_checkpoint();
  process_->signal(SIGSTOP);
  ftrt_process command{elsewhere_.path(), {"stop", "--timeout", "0.3", "--runs-directory", runs()}};
  EXPECT_EQ(command.wait(), 1);
  EXPECT_NE(command.err().find("has not ended"), std::string::npos) << command.err();
  process_->signal(SIGCONT);
  EXPECT_EQ(collect(*process_, folder_.path()).exit_code, 143) << "the request stands";
}

INSTANTIATE_TEST_SUITE_P(real, stop_command, ::testing::Values(way::command),
                         [](const auto&) { return "run"; });

// ---- a service that embeds the run --------------------------------------------------------------

TEST(stop_run, C03_stops_a_run_of_this_very_process_and_leaves_the_process_alone) {
  const scratch_folder folder;
  auto loaded = load_scenario(
      small_scenario(folder.path()),
      {"run.directory=\"" + (folder.path() / "runs").string() + "\"", "train.epochs=100000"});
  ASSERT_TRUE(loaded);
  run_options options;
  options.worker_program = programs() / "ftrt-worker";
  auto started = run::start(loaded->values, options);
  ASSERT_TRUE(started);
  const auto report = stop_run((*started)->directory());
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_TRUE(report->in_order());
  EXPECT_EQ(report->run.status, "stopped");
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "stopped") << summary.error;
  // It still has the folder, but there is no run any more that could be stopped.
  const auto once_more = stop_run((*started)->directory());
  ASSERT_TRUE(once_more);
  EXPECT_EQ(once_more->came_to, stop_report::outcome::not_running);
}

}  // namespace
}  // namespace ftrt::test
