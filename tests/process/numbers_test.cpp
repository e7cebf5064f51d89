// Numbers go wrong in real runs: found, named, undone. The weights come out as if nothing had
// happened, or the run ends and says why.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

std::string fault(const std::string& kind, const std::string& target, int rank, int iteration,
                  int seed = 5) {
  return "[[chaos]]\nkind = \"" + kind + "\"\ntarget = \"" + target +
         "\"\nrank = " + std::to_string(rank) + "\nat_iteration = " + std::to_string(iteration) +
         "\nseed = " + std::to_string(seed) + "\n";
}

class numbers : public ::testing::Test {
 protected:
  // Digests are compared every 10 iterations, checkpoints are made every 50. Faults come late: the
  // order to cause one must be there before its iteration, also where control gets little time.
  static std::vector<std::string> settings(std::uint32_t ranks, std::vector<std::string> more) {
    more.push_back("supervision.digest_every_iterations=10");
    more.push_back("cluster.ranks=" + std::to_string(ranks));
    more.push_back("train.epochs=10");
    return more;
  }

  static std::string fault_free_digest(std::uint32_t ranks) {
    static std::map<std::uint32_t, std::string> known;
    auto& digest = known[ranks];
    if (!digest.empty()) return digest;
    const scratch_folder quiet;
    const auto done = train(quiet.path(), small_scenario(quiet.path()), settings(ranks, {}));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["generations"], 1);
    return digest = done.summary.value("weights_digest", "none");
  }

  finished_run train_with(std::uint32_t ranks, const std::string& chaos,
                          std::vector<std::string> more = {}) {
    return train(folder_.path(), small_scenario(folder_.path(), chaos),
                 settings(ranks, std::move(more)));
  }

  // Events of one kind whose text has `text` in it.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& kind,
                                                   const std::string& text = "") const {
    std::vector<nlohmann::json> found;
    std::istringstream lines{read_file(only_run(folder_.path()) / "events.jsonl")};
    for (std::string line; std::getline(lines, line);) {
      if (line.find('"' + kind + '"') == std::string::npos) continue;
      if (line.find(text) != std::string::npos) found.push_back(nlohmann::json::parse(line));
    }
    return found;
  }

  scratch_folder folder_;
};

TEST_F(numbers, C35_a_bit_that_flips_on_one_of_three_ranks_names_it_and_weights_match) {
  const auto done = train_with(3, fault("flip_bit", "parameter", 1, 460));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  const auto& recovery = done.summary["recoveries"][0];
  EXPECT_EQ(recovery["rank"], 1);
  const std::string cause = recovery["cause"];
  EXPECT_NE(cause.find("its state diverged at iteration 460"), std::string::npos) << cause;
  EXPECT_EQ(events("state_diverged", "it is replaced").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(3));
}

TEST_F(numbers, a_bit_of_a_reduced_gradient_on_one_rank_is_found_as_well) {
  const auto done = train_with(3, fault("flip_bit", "gradient", 2, 417));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  EXPECT_EQ(done.summary["recoveries"][0]["rank"], 2);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(3));
}

TEST_F(numbers, C35_on_two_ranks_nobody_is_named_all_go_back_and_weights_match) {
  const auto done = train_with(2, fault("flip_bit", "parameter", 0, 500));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["recoveries"].size(), 0U) << "nobody was killed";
  EXPECT_GE(done.summary["generations"], 2);
  EXPECT_EQ(events("state_diverged", "no rank can be named").size(), 1U);
  EXPECT_GE(events("rollback").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(2));
}

// The snapshot of iteration 450 has the flipped bit in it; 440 is where the ranks last agreed.
TEST_F(numbers, C35_a_checkpoint_made_of_a_state_that_diverged_is_quarantined) {
  const auto done = train_with(2, fault("flip_bit", "parameter", 0, 449));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(events("checkpoint_quarantined", "where the ranks last agreed").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(2));
}

// Whoever is lost while all go back: nobody goes on from the state that is given up.
TEST_F(numbers, a_rank_and_a_supervisor_killed_around_a_flip_change_nothing_about_it) {
  const std::string kills =
      "[[chaos]]\nkind = \"kill\"\nrank = 2\nat_iteration = 463\n"
      "[[chaos]]\nkind = \"kill_actor\"\nactor = \"run_supervisor\"\nat_iteration = 461\n";
  const auto done = train_with(3, fault("flip_bit", "parameter", 1, 460) + kills);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(events("state_diverged").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(3));
}

TEST_F(numbers, bits_that_flip_on_two_of_three_ranks_leave_no_majority_and_weights_match) {
  const auto done = train_with(
      3, fault("flip_bit", "parameter", 0, 455, 1) + fault("flip_bit", "parameter", 2, 455, 9));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(events("state_diverged", "no rank can be named").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(3));
}

TEST_F(numbers, a_bit_that_flips_after_the_last_iteration_is_found_before_the_end) {
  const auto done = train_with(2, fault("flip_bit", "parameter", 1, 630),
                               {"supervision.digest_every_iterations=1000000"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(events("state_diverged").size(), 1U);
  // The first one that was ready had the flipped bit in it: whoever resumed from it would never
  // know.
  EXPECT_EQ(events("checkpoint_committed", "checkpoint:630").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(2));
}

TEST_F(numbers, C35_a_nan_is_skipped_by_all_ranks_and_told_once) {
  const auto done = train_with(2, fault("nan", "gradient", 1, 450));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["generations"], 1) << "the same decision on every rank";
  const std::uint64_t iterations = done.summary["iterations"];
  EXPECT_EQ(done.summary["optimizer_steps"], iterations - 1);
  EXPECT_EQ(events("not_finite", "skipped").size(), 1U);
}

// fp16's loss scaler answers an overflow under every policy: that step is left out, nobody goes
// back.
TEST_F(numbers, C35_under_fp16_a_nan_in_a_gradient_is_the_loss_scalers_under_every_policy) {
  const auto done = train_with(2, fault("nan", "gradient", 1, 450),
                               {"train.amp=fp16", "train.on_non_finite=rollback"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["generations"], 1);
  EXPECT_LT(done.summary["optimizer_steps"], done.summary["iterations"]);
}

TEST_F(numbers, C35_a_nan_under_rollback_is_undone_and_weights_match) {
  const auto done =
      train_with(2, fault("nan", "gradient", 1, 470), {"train.on_non_finite=rollback"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["recoveries"].size(), 0U);
  const auto told = events("not_finite");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0]["rank"], 1) << told[0].dump();
  EXPECT_GE(events("rollback").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(2));
}

TEST_F(numbers, C35_a_nan_under_stop_ends_the_run_naming_iteration_and_rank) {
  const auto done = train_with(2, fault("nan", "gradient", 1, 470), {"train.on_non_finite=stop"});
  EXPECT_EQ(done.exit_code, 1);
  const std::string error = done.summary["error"];
  EXPECT_NE(error.find("iteration 470 is not finite (on rank 1)"), std::string::npos) << error;
}

// The same weight becomes NaN on both ranks (the place follows from seed plus rank), so that no
// digest differs: what is left is that nothing of it may be kept.
std::string the_same_nan_on_both(int iteration) {
  return fault("nan", "parameter", 0, iteration, 5) + fault("nan", "parameter", 1, iteration, 4);
}

TEST_F(numbers, C35_weights_that_are_not_finite_never_become_a_checkpoint) {
  const auto done = train_with(2, the_same_nan_on_both(400));
  EXPECT_EQ(done.exit_code, 1) << done.out;
  EXPECT_GE(events("checkpoint_quarantined", "is not finite").size(), 2U);
  // 350, unless this machine's disk was so far behind that it had to be dropped, which is told.
  std::set<std::uint64_t> committed;
  for (const auto& each : events("checkpoint_committed"))
    committed.insert(each["iteration"].get<std::uint64_t>());
  std::set<std::uint64_t> finite{50, 100, 150, 200, 250, 300, 350};
  for (const auto& each : events("checkpoint_dropped"))
    finite.erase(each["iteration"].get<std::uint64_t>());
  EXPECT_EQ(committed, finite);
  ASSERT_FALSE(committed.empty());
  EXPECT_EQ(done.summary["checkpoints"]["last_iteration"], *committed.rbegin());
  EXPECT_TRUE(done.summary["train_loss"].is_null()) << done.summary["train_loss"];
  const std::string error = done.summary["error"];
  EXPECT_NE(error.find("is not finite"), std::string::npos) << error;
}

TEST_F(numbers, C35_a_rollback_from_weights_that_are_not_finite_finds_finite_ones) {
  const auto done = train_with(2, the_same_nan_on_both(400), {"train.on_non_finite=rollback"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(events("checkpoint_quarantined", "is not finite").size(), 1U);
  EXPECT_EQ(done.summary["weights_digest"], fault_free_digest(2));
}

}  // namespace
}  // namespace ftrt::test
