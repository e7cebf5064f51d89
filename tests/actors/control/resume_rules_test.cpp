#include <gtest/gtest.h>

#include <actors/control/resume_rules.hpp>
#include <set>

namespace ftrt::actors {
namespace {

loaded_scenario load(const std::vector<std::string>& overrides = {}) {
  const auto* text = R"([model]
kind = "mlp"
layers = [784, 10]
[data]
kind = "synthetic"
)";
  auto loaded = parse_scenario(text, "a.toml", "/", overrides);
  if (!loaded) throw std::runtime_error{loaded.error().front().describe()};
  return std::move(*loaded);
}

// What of these tables says only how to go on from a saved state. Every other key must be refused,
// or be added here by somebody who has thought about it.
const std::set<std::string> free_keys{
    "model.dropout",
    "data.path",
    "data.test_samples",
    "train.epochs",
    "train.max_iterations",
    "train.clip_norm",
    "train.evaluate_every_epochs",
    "train.bucket_bytes",
    "train.on_non_finite",
    "train.max_non_finite_rollbacks",
};

TEST(resume_rules, every_key_that_trains_is_fixed_by_a_run_or_known_to_be_free) {
  std::size_t judged = 0;
  for (const auto& value : load().resolved) {
    const auto table = value.key.substr(0, value.key.find('.'));
    if (table != "model" && table != "data" && table != "train") continue;
    ++judged;
    EXPECT_NE(is_fixed_by_a_run(value.key, schedule_kind::constant), free_keys.contains(value.key))
        << value.key;
  }
  EXPECT_GT(judged, 30U);
}

TEST(resume_rules, a_change_is_refused_with_both_values_and_what_to_do) {
  const auto recorded = load();
  for (const std::string change :
       {"train.amp=\"fp16\"", "train.init_scale=1024.0", "train.scale_growth_interval=10",
        "train.schedule=\"cosine\"", "train.warmup_steps=5", "train.optimizer=\"adamw\"",
        "model.layers=[784,20,10]", "train.lr=0.5"}) {
    const auto faults = changes_of_fixed_values(recorded, load({change}), "runs/a/scenario.toml");
    ASSERT_EQ(faults.size(), 1U) << change;
    EXPECT_EQ(faults[0].key, change.substr(0, change.find('=')));
    EXPECT_NE(faults[0].expected.find(", as the run has it"), std::string::npos);
    EXPECT_FALSE(faults[0].found.empty());
    EXPECT_NE(faults[0].hint.find("start a new run"), std::string::npos);
  }
}

TEST(resume_rules, a_cosine_is_as_long_as_the_run_so_that_its_end_stays) {
  const std::string cosine = "train.schedule=\"cosine\"";
  const auto recorded = load({cosine, "train.epochs=3"});
  for (const std::string change : {"train.epochs=9", "train.max_iterations=70"}) {
    const auto key = change.substr(0, change.find('='));
    EXPECT_TRUE(is_fixed_by_a_run(key, schedule_kind::cosine));
    EXPECT_FALSE(is_fixed_by_a_run(key, schedule_kind::step));
    const auto faults =
        changes_of_fixed_values(recorded, load({cosine, "train.epochs=3", change}), "a.toml");
    ASSERT_EQ(faults.size(), 1U) << change;
    EXPECT_EQ(faults[0].key, key);
    EXPECT_EQ(faults[0].expected.substr(0, 1), key == "train.epochs" ? "3" : "0");
    EXPECT_EQ(faults[0].found, change.substr(change.find('=') + 1));
    EXPECT_NE(faults[0].hint.find("start a new run"), std::string::npos);
  }
  std::vector<std::string> stepped{"train.schedule=\"step\"", "train.decay_every=5"};
  const auto before = load(stepped);
  stepped.push_back("train.epochs=9");
  EXPECT_TRUE(changes_of_fixed_values(before, load(stepped), "a.toml").empty());
}

TEST(resume_rules, what_says_how_to_go_on_may_change) {
  EXPECT_TRUE(changes_of_fixed_values(
                  load(),
                  load({"train.epochs=9", "train.clip_norm=1.0", "train.on_non_finite=\"stop\"",
                        "checkpoint.every_iterations=7", "supervision.spares=0"}),
                  "a.toml")
                  .empty());
}

}  // namespace
}  // namespace ftrt::actors
