// The scenarios that ship, on real MNIST.

#include <gtest/gtest.h>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

// Runs the shipped scenario and keeps its digest where the chaos tests of this program find it.
TEST(mnist, the_main_job_and_its_chaos_scenarios_end_with_the_same_weights) {
  const scratch_folder quiet;
  const auto main_job = train(quiet.path(), scenarios() / "mnist.toml");
  ASSERT_EQ(main_job.exit_code, 0) << main_job.err;
  EXPECT_GE(main_job.summary["test_accuracy"], 0.975);
  EXPECT_EQ(main_job.summary["iterations"], 2345);
  EXPECT_EQ(main_job.summary["recoveries"].size(), 0U);
  const std::string digest = main_job.summary["weights_digest"];
  EXPECT_EQ(digest.size(), 32U);

  for (const std::string name :
       {"kill_rank", "stop_rank", "kill_all", "kill_all_memory", "kill_actors", "flip_bit", "nan",
        "slow", "replace_slow", "kill_zygote", "kill_supervisor", "clock_jump", "kill_in_phases",
        "stop_in_phases"}) {
    const scratch_folder folder;
    // The digest is known here; one of them has the comparison made by itself.
    std::vector<std::string> sets;
    if (name != "kill_in_phases") sets.push_back("expect.weights_digest=" + digest);
    if (name.starts_with("stop_")) sets.push_back("supervision.hang_floor=\"500ms\"");
    const auto done = train(folder.path(), scenarios() / "chaos" / (name + ".toml"), sets);
    ASSERT_EQ(done.exit_code, 0) << name << ": " << done.err;
    EXPECT_EQ(done.summary["weights_digest"], digest) << name;
    EXPECT_GE(done.summary["expectations"].size(), 2U) << name;
    const bool at_full_strength = name == "slow" || name == "replace_slow" ||
                                  name == "kill_zygote" || name == "kill_supervisor" ||
                                  name == "clock_jump";
    if (at_full_strength) continue;  // what it is expected to come to says all
    if (name == "kill_actors") {
      EXPECT_GE(done.summary["actor_restarts"].size(), 5U) << name;
    } else if (name == "flip_bit" || name == "nan") {
      EXPECT_GE(done.summary["generations"], 4) << name << ": three times back";
      EXPECT_EQ(done.summary["recoveries"].size(), 0U) << name;
    } else {
      EXPECT_GE(done.summary["recoveries"].size(), 3U) << name;
    }
    for (const auto& recovery : done.summary["recoveries"]) {
      const std::string source = recovery["source"];
      // A rank that dies in its start or its first join has nobody to get a state from.
      if (name == "kill_in_phases" && source == "initial") continue;
      const auto expected = name == "kill_all"          ? "checkpoint:"
                            : name == "kill_all_memory" ? "snapshot:"
                                                        : "survivor:";
      EXPECT_EQ(source.rfind(expected, 0), 0U) << name << ": " << source;
    }
  }
}

TEST(mnist, poisoned_batches_are_left_out_and_the_run_goes_on) {
  const scratch_folder folder;
  const auto done = train(folder.path(), scenarios() / "chaos/poisoned_batch.toml");
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["left_out"], (std::vector{350, 1050}));
  EXPECT_EQ(done.summary["iterations"], 2345);
  EXPECT_EQ(done.summary["optimizer_steps"], 2343);
  EXPECT_GE(done.summary["test_accuracy"], 0.97);
  const auto kept = only_run(folder.path()) / "poisoned" / "iteration-350-rank-1";
  EXPECT_EQ(read_file(kept / "stderr.txt"), "chaos: this batch is poisoned\n");
}

}  // namespace
}  // namespace ftrt::test
