// Workers and actors die in real runs; the weights come out as if nothing had happened.

#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <set>
#include <tests/support/command.hpp>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

// Faults by the clock come as much more rarely as iterations are slow: as many fall into a run.
std::string mean_time_ms(int at_full_speed) {
  return "mtbf = \"" + std::to_string(at_full_speed * slowness) + "ms\"\n";
}

const std::string all_killed_every_333 =
    "[[chaos]]\nkind = \"kill\"\nranks = \"all\"\nevery = 333\n";

class small_run : public ::testing::Test {
 protected:
  // The digest that the small scenario ends with when nothing dies.
  std::string fault_free_digest(const std::vector<std::string>& sets = {}) {
    const scratch_folder quiet;
    const auto done = train(quiet.path(), small_scenario(quiet.path()), sets);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["recoveries"].size(), 0U);
    return done.summary.value("weights_digest", "none");
  }

  finished_run train_with(const std::string& chaos) {
    auto done = train(folder_.path(), small_scenario(folder_.path(), chaos));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["status"], "completed") << done.summary.dump(2);
    return done;
  }

  // Takes the run up, to its end; what it prints goes to the folder, or to another one.
  finished_run resume() { return resume_from(folder_.path()); }
  finished_run resume_from(const std::filesystem::path& folder,
                           const std::vector<std::string>& sets = {}) {
    std::vector<std::string> arguments{"resume", "--runs-directory",
                                       (folder_.path() / "runs").string(), "--summary",
                                       (folder / "summary.json").string()};
    for (const auto& set : sets) arguments.insert(arguments.end(), {"--set", set});
    ftrt_process again{folder, std::move(arguments)};
    return collect(again, folder);
  }

  // For tests that act from outside: long enough that the run is still at it, however busy the
  // machine is.
  const std::vector<std::string> long_run_{"train.epochs=" + std::to_string(120 / slowness)};
  scratch_folder folder_;
};

TEST_F(small_run, a_rank_killed_again_and_again_is_replaced_and_weights_match) {
  const auto done = train_with("[[chaos]]\nkind = \"kill\"\nrank = 1\nevery = 150\n");
  EXPECT_GE(done.summary["recoveries"].size(), 3U);
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["rank"], 1);
    EXPECT_EQ(recovery["actor"], "trainer:1");
    EXPECT_EQ(recovery["source"], "survivor:0");
    EXPECT_EQ(recovery["lost_iterations"], 0);
    EXPECT_GE(recovery["resumed_ms"], recovery["detected_ms"]);
  }
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(small_run, all_ranks_killed_at_once_come_back_from_the_catalog_and_weights_match) {
  const auto done = train_with("restore_from_memory = false\n" + all_killed_every_333);
  EXPECT_GE(done.summary["recoveries"].size(), 6U) << "three times both ranks";
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(std::string{recovery["source"]}.substr(0, 11), "checkpoint:");
  }
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(small_run, all_ranks_killed_at_once_come_back_from_shared_memory_and_weights_match) {
  const auto done = train_with("snapshot_every_iterations = 10\n" + all_killed_every_333);
  EXPECT_GE(done.summary["recoveries"].size(), 6U) << "three times both ranks";
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(std::string{recovery["source"]}.substr(0, 9), "snapshot:");
    EXPECT_LE(recovery["lost_iterations"], 20) << recovery.dump();
    const auto& times = recovery["times"];
    const double sum = double{times["detect_ms"]} + double{times["park_ms"]} +
                       double{times["spawn_ms"]} + double{times["join_ms"]} +
                       double{times["first_step_ms"]};
    EXPECT_NEAR(sum, recovery["resumed_ms"], 0.01) << recovery.dump();
    EXPECT_GT(double{times["state_ms"]}, 0) << recovery.dump();
    EXPECT_LE(double{times["state_ms"]}, double{times["join_ms"]}) << recovery.dump();
  }
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

// One kill after the other, an iteration apart, and now and then one that falls into a recovery.
TEST_F(small_run, kills_in_quick_succession_each_begin_the_next_generation_and_weights_match) {
  const auto done = train_with("snapshot_every_iterations = 10\n" + all_killed_every_333 + R"(
[[chaos]]
kind = "kill"
rank = 0
every = 334
[[chaos]]
kind = "kill"
rank = 1
every = 335
[[chaos]]
kind = "kill"
rank = 1
)" + mean_time_ms(300) + R"(seed = 6
[supervision]
max_failures_without_progress = 100
)");
  EXPECT_GE(done.summary["recoveries"].size(), 8U);
  EXPECT_GE(done.summary["generations"], 5);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(small_run, killed_actors_are_replaced_while_their_workers_train_on) {
  const auto done = train_with(R"(
[[chaos]]
kind = "kill_actor"
actor = "trainer:0"
every = 200
[[chaos]]
kind = "kill_actor"
actor = "checkpoint"
every = 310
[[chaos]]
kind = "kill_actor"
actor = "metrics"
every = 170
[[chaos]]
kind = "kill_actor"
actor = "run_supervisor"
every = 270
[[chaos]]
kind = "kill_actor"
actor = "host_supervisor"
every = 230
)");
  std::set<std::string> restarted;
  for (const auto& restart : done.summary["actor_restarts"]) restarted.insert(restart["actor"]);
  EXPECT_EQ(restarted, (std::set<std::string>{"trainer:0", "checkpoint", "metrics",
                                              "run_supervisor", "host_supervisor"}));
  EXPECT_EQ(done.summary["generations"], 1) << "no worker was touched, so there is one generation";
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
}

TEST_F(small_run, workers_and_actors_killed_at_random_leave_the_weights_alone) {
  const std::uint64_t seed = std::random_device{}() % 100000;
  RecordProperty("seed", static_cast<int>(seed));
  const auto text = std::to_string(seed);
  const auto done =
      train_with("[[chaos]]\nkind = \"kill\"\nrank = 0\n" + mean_time_ms(400) + "seed = " + text +
                 "\n[[chaos]]\nkind = \"kill\"\nrank = 1\n" + mean_time_ms(400) + "seed = 1" +
                 text + "\n[[chaos]]\nkind = \"kill_actor\"\nactor = \"run_supervisor\"\n" +
                 mean_time_ms(500) + "seed = 2" + text + "\n");
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest()) << "seed " << seed;
}

TEST_F(small_run, a_worker_killed_by_hand_is_named_and_replaced) {
  const auto scenario = small_scenario(folder_.path());
  ftrt_process process{folder_.path(), training_arguments(folder_.path(), scenario, long_run_)};
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << process.err();
  const auto worker = process.worker_of(0);
  ASSERT_TRUE(worker.has_value());
  ::kill(*worker, SIGKILL);
  const auto done = collect(process, folder_.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  EXPECT_EQ(done.summary["recoveries"][0]["cause"], "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(long_run_));
}

TEST_F(small_run, killed_itself_it_leaves_no_worker_and_resumes_to_the_same_weights) {
  const auto scenario = small_scenario(folder_.path());
  std::vector<pid_t> family;
  {
    ftrt_process process{folder_.path(), training_arguments(folder_.path(), scenario, long_run_)};
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 2; })) << process.err();
    family = process.descendants();
    EXPECT_GE(family.size(), 3U) << "a zygote and two workers";
    process.signal(SIGKILL);
    process.wait();
  }
  EXPECT_TRUE(eventually(
      [&] {
        for (const auto pid : family) {
          if (::kill(pid, 0) == 0) return false;
        }
        return true;
      },
      std::chrono::seconds{6}))
      << "a worker outlived its grace period";
  const auto done = resume();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(long_run_));
}

TEST_F(small_run, C05_sigterm_stops_after_a_committed_checkpoint_and_resume_goes_on) {
  const auto scenario = small_scenario(folder_.path());
  {
    ftrt_process process{folder_.path(), training_arguments(folder_.path(), scenario, long_run_)};
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << process.err();
    process.signal(SIGTERM);
    const auto stopped = collect(process, folder_.path());
    EXPECT_EQ(stopped.exit_code, 143) << stopped.err;
    EXPECT_EQ(stopped.summary["status"], "stopped");
    EXPECT_EQ(stopped.summary["checkpoints"]["last_iteration"], stopped.summary["iterations"]);
  }
  const auto done = resume();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(long_run_));
}

TEST_F(small_run, what_a_resume_overrides_stays_and_what_it_may_not_is_refused) {
  EXPECT_EQ(train(folder_.path(), small_scenario(folder_.path()), {"train.epochs=2"}).exit_code, 0);
  for (const std::string change : {"run.seed=32", "train.global_batch=32", "train.amp=fp16"}) {
    const auto refused = resume_from(folder_.path(), {change});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    const auto key = change.substr(0, change.find('='));
    EXPECT_NE(refused.err.find(key + ": expected "), std::string::npos) << refused.err;
  }
  const auto longer = resume_from(folder_.path(), {"train.epochs=20"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(longer.summary["weights_digest"], fault_free_digest());
  const auto again = resume();  // of 20 epochs still
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.summary["iterations"], longer.summary["iterations"]);
  const auto shorter = resume_from(folder_.path(), {"train.epochs=3"});
  EXPECT_EQ(shorter.exit_code, 2) << shorter.err;
  EXPECT_NE(shorter.err.find("train.epochs: expected an end"), std::string::npos) << shorter.err;
}

TEST_F(small_run, C15_a_second_process_on_one_run_directory_names_the_holder) {
  const auto scenario = small_scenario(folder_.path());
  ftrt_process first{folder_.path(), training_arguments(folder_.path(), scenario, long_run_)};
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << first.err();
  const scratch_folder elsewhere;
  const auto second = resume_from(elsewhere.path());
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_NE(second.err.find(std::to_string(first.pid())), std::string::npos) << second.err;
  EXPECT_EQ(first.wait(), 0);
}

TEST_F(small_run, C13_a_catalog_that_was_made_anew_is_told_of_by_the_run_that_resumes) {
  EXPECT_EQ(train(folder_.path(), small_scenario(folder_.path())).exit_code, 0);
  const auto run = only_run(folder_.path());
  std::filesystem::resize_file(run / "catalog.sqlite", 100);
  const auto again = resume();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("catalog.sqlite was damaged"), std::string::npos) << again.out;
}

TEST_F(small_run, C13_whose_checkpoints_are_all_gone_is_not_resumed_until_one_is_back) {
  const auto whole = train(folder_.path(), small_scenario(folder_.path()));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  const auto run = only_run(folder_.path());
  std::filesystem::rename(run / "checkpoints", run / "moved");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = resume();
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    for (const auto& text :
         {std::string{"checkpoint 1260 of branch 1: expected one that can be "},
          std::string{"manifest.bin"}, "ftrt --scenario " + (run / "scenario.toml").string()}) {
      EXPECT_NE(refused.err.find(text), std::string::npos) << text << " in: " << refused.err;
    }
  }
  std::filesystem::remove(run / "checkpoints");
  std::filesystem::rename(run / "moved", run / "checkpoints");
  const auto done = resume();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["weights_digest"], whole.summary["weights_digest"]);
}

TEST_F(small_run, C14_a_resume_that_cannot_be_recorded_ends_with_the_error_and_loses_nothing) {
  const auto whole = train(folder_.path(), small_scenario(folder_.path()));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  const auto catalog = quoted(only_run(folder_.path()) / "catalog.sqlite");
  ASSERT_EQ(run_command("sqlite3 " + catalog +
                        " \"create trigger full before insert on branches begin "
                        "select raise(abort, 'no room for a branch'); end\"")
                .exit_code,
            0);
  const auto failed = resume();
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_EQ(failed.summary["status"], "failed");
  for (const auto* text : {"from iteration 1260 as branch 2", "no room for a branch"}) {
    EXPECT_NE(failed.err.find(text), std::string::npos) << text << " in: " << failed.err;
  }
  ASSERT_EQ(run_command("sqlite3 " + catalog + " 'drop trigger full'").exit_code, 0);
  const auto done = resume();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["weights_digest"], whole.summary["weights_digest"]);
}

TEST_F(small_run, a_crash_loop_stops_with_cause_and_the_tail_of_standard_error) {
  const auto done = train(folder_.path(), small_scenario(folder_.path(), R"(
[supervision]
max_restarts = 4
window = "1min"
[[chaos]]
kind = "kill"
rank = 1
every = 20
)"));
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.summary["status"], "failed");
  EXPECT_NE(std::string{done.summary["error"]}.find("SIGKILL"), std::string::npos)
      << done.summary["error"];
}

}  // namespace
}  // namespace ftrt::test
