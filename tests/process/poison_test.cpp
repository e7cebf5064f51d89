// A batch that kills whoever computes it: the run ends with what it takes to see it again, or goes
// on without it.

#include <gtest/gtest.h>

#include <chrono>
#include <ftrt/catalog.hpp>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

constexpr std::uint32_t poison = 1000;  // of difficult-worker's model "poisoned"

class a_poisoned_batch : public ::testing::Test {
 protected:
  // Two epochs, with the sample in each.
  scenario values(poison_policy policy) {
    auto loaded = load_scenario(small_scenario(folder_.path()),
                                {"run.directory=\"" + (folder_.path() / "runs").string() + "\"",
                                 "train.epochs=2", "supervision.hang_floor=\"20s\""});
    if (!loaded) throw std::runtime_error{loaded.error().front().describe()};
    auto& made = loaded->values;
    made.model.kind = "poisoned";
    made.model.layers.clear();
    made.model.dropout = 0;
    made.supervision.poisoned_batch = policy;
    return made;
  }
  static run_options options() {
    run_options with;
    with.worker_program = FTRT_DIFFICULT_WORKER;
    return with;
  }
  run_summary train(poison_policy policy) {
    auto started = run::start(values(policy), options());
    if (!started) throw std::runtime_error{"not started"};
    directory_ = (*started)->directory();
    return (*started)->wait();
  }
  [[nodiscard]] std::vector<event> events(event::kind kind) const {
    std::vector<event> found;
    const auto all = list_events(directory_);
    if (!all) return found;
    for (const auto& each : *all) {
      if (each.what == kind) found.push_back(each);
    }
    return found;
  }
  [[nodiscard]] nlohmann::json bundle(std::uint64_t iteration, std::int64_t rank) const {
    const auto name = "iteration-" + std::to_string(iteration) + "-rank-" + std::to_string(rank);
    return nlohmann::json::parse(read_file(directory_ / "poisoned" / name / "bundle.json"), nullptr,
                                 false);
  }
  static bool has_the_poison(const nlohmann::json& bundle) {
    for (const auto& batch : bundle["micro_batches"]) {
      if (batch["micro_batch"] != bundle["died_at_micro_batch"]) continue;
      for (const std::uint32_t id : batch["sample_ids"]) {
        if (id == poison) return true;
      }
    }
    return false;
  }

  const scratch_folder folder_;
  std::filesystem::path directory_;
};

TEST_F(a_poisoned_batch, stops_the_run_at_the_third_death_and_its_samples_are_named) {
  const auto summary = train(poison_policy::stop);
  EXPECT_EQ(summary.status, "failed");
  EXPECT_NE(summary.error.find("poisoned batch: "), std::string::npos) << summary.error;
  EXPECT_NE(summary.error.find("I cannot stand sample 1000"), std::string::npos) << summary.error;
  const auto told = events(event::kind::batch_poisoned);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.front().iteration, summary.iterations + 1);
  EXPECT_EQ(events(event::kind::worker_lost).size(), 3U);
  const auto kept = bundle(told.front().iteration, told.front().rank);
  ASSERT_TRUE(kept.is_object());
  EXPECT_EQ(kept["times"], 3);
  EXPECT_EQ(kept["cause"], "killed by signal 6 (SIGABRT)");
  EXPECT_TRUE(has_the_poison(kept)) << kept.dump(2);
}

TEST_F(a_poisoned_batch, is_left_out_alike_by_all_ranks_where_the_scenario_allows_it) {
  const auto summary = train(poison_policy::skip);
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(summary.iterations, 126U);
  ASSERT_EQ(summary.left_out.size(), 2U) << "one in each epoch";
  EXPECT_LE(summary.left_out[0], 63U);
  EXPECT_GT(summary.left_out[1], 63U);
  EXPECT_EQ(summary.optimizer_steps, 124U);
  for (const auto& each : events(event::kind::batch_skipped)) {
    EXPECT_TRUE(has_the_poison(bundle(each.iteration, each.rank)));
  }
  EXPECT_TRUE(events(event::kind::not_finite).empty()) << "nothing was: it was not computed";
  const auto again = train(poison_policy::skip);
  EXPECT_EQ(again.weights_digest, summary.weights_digest);
  EXPECT_EQ(again.left_out, summary.left_out);
}

// Back to the first iteration, since nothing was saved: past the windows that were left out.
TEST_F(a_poisoned_batch, that_was_left_out_stays_so_when_all_are_killed_and_go_back) {
  const auto once = train(poison_policy::skip);
  const scratch_folder elsewhere;
  auto again = values(poison_policy::skip);
  again.run.directory = elsewhere.path() / "runs";
  again.checkpoint.every_iterations = 1000;
  chaos_entry kill_all;
  kill_all.all_ranks = true;
  kill_all.at_iteration = 100;
  again.chaos.push_back(kill_all);
  auto started = run::start(again, options());
  ASSERT_TRUE(started);
  directory_ = (*started)->directory();
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(summary.weights_digest, once.weights_digest);
  EXPECT_EQ(summary.left_out, once.left_out);
  EXPECT_EQ(events(event::kind::rollback).size(), 1U);
  EXPECT_EQ(events(event::kind::batch_skipped).size(), 2U);
  EXPECT_EQ(events(event::kind::worker_lost).size(), 3U + 2U + 3U) << "the first one kills once";
}

// One rank says what it cannot bear; its peer, which has other samples, says nothing.
TEST_F(a_poisoned_batch, that_makes_one_rank_throw_is_found_as_well) {
  auto thrown = values(poison_policy::stop);
  thrown.model.kind = "complaining";
  auto started = run::start(thrown, options());
  ASSERT_TRUE(started);
  directory_ = (*started)->directory();
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "failed");
  EXPECT_NE(summary.error.find("poisoned batch: "), std::string::npos) << summary.error;
  const auto told = events(event::kind::batch_poisoned);
  ASSERT_EQ(told.size(), 1U);
  const auto kept = bundle(told.front().iteration, told.front().rank);
  ASSERT_TRUE(kept.is_object());
  EXPECT_NE(kept["cause"].get<std::string>().find("I cannot stand sample 1000"), std::string::npos);
  EXPECT_TRUE(has_the_poison(kept)) << kept.dump(2);
}

TEST_F(a_poisoned_batch, that_ended_the_run_is_left_out_by_who_resumes_it_so_and_for_good) {
  const auto stopped = train(poison_policy::stop);
  const std::vector<std::string> skip{"supervision.poisoned_batch=skip"};
  auto resumed = run::resume(folder_.path() / "runs", "", skip, options());
  ASSERT_TRUE(resumed);
  const auto summary = (*resumed)->wait();
  EXPECT_EQ(summary.status, "completed") << summary.error;
  ASSERT_EQ(summary.left_out.size(), 2U);
  EXPECT_EQ(summary.left_out.front(), stopped.iterations + 1);
  resumed->reset();
  const scratch_folder elsewhere;
  auto whole = values(poison_policy::skip);
  whole.run.directory = elsewhere.path() / "runs";
  auto started = run::start(whole, options());
  ASSERT_TRUE(started);
  EXPECT_EQ((*started)->wait().weights_digest, summary.weights_digest);
}

}  // namespace
}  // namespace ftrt::test
