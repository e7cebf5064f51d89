#include <gmock/gmock.h>

#include <cstdlib>
#include <ftrt/scenario.hpp>
#include <map>
#include <set>
#include <tests/support/environment.hpp>

namespace ftrt {
namespace {

loaded_scenario load_well(const std::string& name, const std::vector<std::string>& overrides = {}) {
  auto loaded = load_scenario(test::source_tree() / "scenarios" / name, overrides);
  if (loaded) return *loaded;
  for (const auto& fault : loaded.error()) ADD_FAILURE() << fault.describe();
  return {};
}

// Everything that the weights depend on, and more: all values but the run's name, the faults, and
// where a loss of all ranks is restored from.
std::map<std::string, std::string> training_of(const loaded_scenario& loaded) {
  std::map<std::string, std::string> values;
  for (const auto& value : loaded.resolved) {
    // What is done about a NaN, a poisoned batch or a straggler changes nothing where there is
    // none.
    const bool may_differ =
        value.key == "run.name" || value.key.starts_with("chaos") ||
        value.key.starts_with("expect.") || value.key == "train.on_non_finite" ||
        value.key == "supervision.poisoned_batch" || value.key == "supervision.on_straggler" ||
        value.key == "checkpoint.restore_from_memory" ||
        value.key == "checkpoint.snapshot_every_iterations";
    if (!may_differ) values[value.key] = value.value;
  }
  return values;
}

TEST(shipped_scenarios, mnist_trains_as_the_readme_says) {
  const auto s = load_well("mnist.toml").values;
  EXPECT_THAT(s.model.layers, testing::ElementsAre(784, 128, 10));
  EXPECT_EQ(s.cluster.ranks, 2u);
  EXPECT_EQ(s.train.epochs, 5u);
  EXPECT_EQ(s.micro_batches(), 4u);
  EXPECT_EQ(s.train.amp, amp_mode::bf16);
  EXPECT_EQ(s.data.path, (test::source_tree() / "data/mnist").lexically_normal());
  EXPECT_TRUE(s.chaos.empty());
}

TEST(shipped_scenarios, the_faulty_ones_train_exactly_as_mnist_does) {
  const auto plain = training_of(load_well("mnist.toml"));
  EXPECT_GT(plain.size(), 50u);
  for (const auto* name :
       {"kill_rank.toml", "kill_all.toml", "kill_all_memory.toml", "kill_actors.toml",
        "stop_rank.toml", "flip_bit.toml", "nan.toml", "slow.toml", "replace_slow.toml",
        "kill_zygote.toml", "kill_supervisor.toml", "clock_jump.toml", "kill_in_phases.toml",
        "stop_in_phases.toml", "poisoned_batch.toml"}) {
    const auto faulty = load_well("chaos/" + std::string{name});
    EXPECT_EQ(training_of(faulty), plain) << name;
    EXPECT_FALSE(faulty.values.chaos.empty()) << name;
    const bool loses_batches = std::string{name} == "poisoned_batch.toml";
    EXPECT_EQ(faulty.values.expect.weights_digest, loses_batches ? "" : "same_as_fault_free")
        << name;
  }
}

TEST(shipped_scenarios, kill_rank_kills_each_rank) {
  std::set<std::uint32_t> ranks;
  for (const auto& entry : load_well("chaos/kill_rank.toml").values.chaos) {
    EXPECT_EQ(entry.kind, chaos_kind::kill);
    ranks.insert(entry.ranks.begin(), entry.ranks.end());
  }
  EXPECT_THAT(ranks, testing::ElementsAre(0, 1));
}

TEST(shipped_scenarios, stop_rank_stops_each_rank) {
  std::set<std::uint32_t> ranks;
  for (const auto& entry : load_well("chaos/stop_rank.toml").values.chaos) {
    EXPECT_EQ(entry.kind, chaos_kind::stop);
    ranks.insert(entry.ranks.begin(), entry.ranks.end());
  }
  EXPECT_THAT(ranks, testing::ElementsAre(0, 1));
}

TEST(shipped_scenarios, flip_bit_flips_weights_and_gradients_and_nan_goes_back) {
  std::set<chaos_target> targets;
  for (const auto& entry : load_well("chaos/flip_bit.toml").values.chaos) {
    EXPECT_EQ(entry.kind, chaos_kind::flip_bit);
    targets.insert(entry.target);
  }
  EXPECT_EQ(targets.size(), 2U);
  const auto nan = load_well("chaos/nan.toml").values;
  EXPECT_EQ(nan.train.on_non_finite, non_finite_policy::rollback);
  for (const auto& entry : nan.chaos) EXPECT_EQ(entry.kind, chaos_kind::nan);
}

TEST(shipped_scenarios, replace_slow_replaces_a_straggler_and_slow_does_not) {
  const auto replaces = load_well("chaos/replace_slow.toml").values;
  EXPECT_EQ(replaces.supervision.on_straggler, straggler_policy::replace);
  for (const auto& entry : replaces.chaos) EXPECT_EQ(entry.kind, chaos_kind::slow);
  EXPECT_EQ(load_well("chaos/slow.toml").values.supervision.on_straggler, straggler_policy::report);
}

TEST(shipped_scenarios, poisoned_batch_leaves_the_batches_out) {
  const auto s = load_well("chaos/poisoned_batch.toml").values;
  EXPECT_EQ(s.supervision.poisoned_batch, poison_policy::skip);
  for (const auto& entry : s.chaos) EXPECT_EQ(entry.kind, chaos_kind::poison);
}

TEST(shipped_scenarios, kill_all_leaves_no_survivor) {
  for (const auto* name : {"chaos/kill_all.toml", "chaos/kill_all_memory.toml"}) {
    const auto s = load_well(name).values;
    for (const auto& entry : s.chaos) EXPECT_TRUE(entry.all_ranks) << name;
    EXPECT_EQ(s.checkpoint.restore_from_memory, std::string{name} == "chaos/kill_all_memory.toml");
  }
}

TEST(shipped_scenarios, kill_actors_kills_every_kind_of_actor) {
  std::set<std::string> actors;
  for (const auto& entry : load_well("chaos/kill_actors.toml").values.chaos) {
    EXPECT_EQ(entry.kind, chaos_kind::kill_actor);
    actors.insert(entry.actor);
  }
  EXPECT_THAT(actors, testing::ElementsAre("checkpoint", "metrics", "run_supervisor", "trainer:0",
                                           "trainer:1"));
}

TEST(shipped_scenarios, strike_in_every_phase) {
  std::set<chaos_phase> phases;
  for (const auto& entry : load_well("chaos/kill_in_phases.toml").values.chaos) {
    EXPECT_EQ(entry.kind, chaos_kind::kill);
    phases.insert(entry.in);
  }
  EXPECT_EQ(phases.size(), 7U);
  EXPECT_FALSE(phases.contains(chaos_phase::any));
}

TEST(shipped_scenarios, show_every_kind) {
  std::set<chaos_kind> kinds;
  const auto folder = test::source_tree() / "scenarios/chaos";
  for (const auto& file : std::filesystem::directory_iterator{folder}) {
    const auto name = file.path().filename().string();
    for (const auto& entry : load_well("chaos/" + name).values.chaos) kinds.insert(entry.kind);
  }
  EXPECT_EQ(kinds.size(), 10U);
}

TEST(shipped_scenarios, run_without_faults_when_asked) {
  EXPECT_TRUE(load_well("chaos/slow.toml", {"chaos=[]"}).values.expect.weights_digest.empty());
  EXPECT_TRUE(load_well("chaos/kill_all.toml", {"chaos=[]"}).values.chaos.empty());
}

}  // namespace
}  // namespace ftrt
