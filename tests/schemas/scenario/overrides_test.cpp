#include <tests/schemas/scenario/scenario_text.hpp>

namespace ftrt::testing_scenario {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(overrides, reach_keys_and_tables_that_the_file_does_not_have) {
  const auto s = parse_well(valid, {"train.lr=0.05", "checkpoint.verify=false"}).values;
  EXPECT_EQ(s.train.lr, 0.05);
  EXPECT_FALSE(s.checkpoint.verify);
}

TEST(overrides, replace_what_the_file_says_and_the_last_one_counts) {
  const auto s = parse_well(valid, {"model.layers=[784,10]", "run.seed=1", "run.seed=2"}).values;
  EXPECT_THAT(s.model.layers, ElementsAre(784, 10));
  EXPECT_EQ(s.run.seed, 2u);
}

TEST(overrides, take_text_without_quotes) {
  const auto s =
      parse_well(valid, {"train.amp=bf16", "supervision.window=2min", "train.bucket_bytes=64KiB",
                         "run.directory=/tmp/my runs", "run.name=\"quoted\""})
          .values;
  EXPECT_EQ(s.train.amp, amp_mode::bf16);
  EXPECT_EQ(s.supervision.window, std::chrono::minutes{2});
  EXPECT_EQ(s.train.bucket_bytes, 65536u);
  EXPECT_EQ(s.run.directory, "/tmp/my runs");
  EXPECT_EQ(s.run.name, "quoted");
}

TEST(overrides, take_a_number_as_text_where_text_is_asked_for) {
  EXPECT_EQ(parse_well(valid, {"run.name=7"}).values.run.name, "7");
  EXPECT_EQ(parse_well(valid, {"run.name=2026-11-30"}).values.run.name, "2026-11-30");
}

TEST(overrides, drop_all_faults) {
  const auto faulty = std::string{valid} + "[[chaos]]\nkind = \"kill\"\nrank = 0\nevery = 50\n";
  EXPECT_EQ(parse_well(faulty).values.chaos.size(), 1u);
  EXPECT_THAT(parse_well(faulty, {"chaos=[]"}).values.chaos, IsEmpty());
  EXPECT_THAT(parse_well(faulty, {" chaos = [ ] "}).values.chaos, IsEmpty());
}

TEST(overrides, cannot_make_faults) {
  EXPECT_THAT(faults(valid, {"chaos=[1]"}),
              ElementsAre("--set: chaos: expected `chaos=[]`, which drops all faults, found "
                          "\"chaos=[1]\"; other faults are written in the file"));
  EXPECT_THAT(faults(valid, {"chaos[0].rank=1"}),
              ElementsAre(HasSubstr("--set: chaos[0].rank: expected `chaos=[]`")));
}

TEST(overrides, are_checked_as_the_file_is) {
  EXPECT_THAT(faults(valid, {"train.lr=-1", "train.epochs=2.5", "supervision.window=30"}),
              ElementsAre("--set: train.lr: expected a number greater than 0, found -1",
                          "--set: train.epochs: expected an integer from 1 to 1000000, found 2.5",
                          "--set: supervision.window: expected a duration from 1ms to 24h such as "
                          "\"200ms\", found 30; write the unit: \"30ms\" or \"30s\""));
}

TEST(overrides, of_unknown_names_are_refused_with_the_nearest) {
  EXPECT_THAT(
      faults(valid, {"train.lrr=1", "trian.lr=1", "lr=1", "train.lr"}),
      ElementsAre("--set: train.lrr: expected a key of [train], found \"lrr\"; did you mean "
                  "`lr`?",
                  "--set: trian.lr: expected a table of a scenario, found \"trian\"; did "
                  "you mean [train]?",
                  "--set: lr: expected TABLE.KEY=VALUE, found \"lr\"; `lr` belongs to "
                  "[train]",
                  "--set: expected TABLE.KEY=VALUE, found \"train.lr\""));
}

TEST(overrides, cannot_smuggle_a_second_value_in) {
  const auto outcome = parse(valid, {"run.seed=5\ncluster.ranks=1"});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().front().key, "run.seed");
}

TEST(overrides, take_part_in_the_rules_over_several_keys) {
  EXPECT_THAT(faults(valid, {"cluster.ranks=5"}),
              ElementsAre("--set: cluster.ranks: expected at most 4 ranks, found 5; a full window "
                          "of 128 samples has 128 / 32 = 4 micro-batches, and each rank needs one; "
                          "train.micro_batch = 25 would do"));
}

}  // namespace
}  // namespace ftrt::testing_scenario
