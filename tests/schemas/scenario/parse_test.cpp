#include <algorithm>
#include <cmath>
#include <tests/schemas/scenario/scenario_text.hpp>

namespace ftrt::testing_scenario {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view plain = R"([run]
name = "small"
seed = 7

[cluster]
ranks = 4

[model]
kind = "mlp"
layers = [784, 32, 10]

[data]
kind = "mnist"
path = "../data/mnist"

[train]
lr = 0.5
momentum = 0.9
amp = "bf16"
bucket_bytes = "64KiB"

[supervision]
window = "2min"

[[chaos]]
kind = "kill"
rank = 1
at_iteration = 30

[[chaos]]
kind = "kill_actor"
actor = "trainer:3"
every = "1.5s"
)";

const resolved_value& resolved(const loaded_scenario& loaded, std::string_view key) {
  const auto found = std::ranges::find(loaded.resolved, key, &resolved_value::key);
  EXPECT_NE(found, loaded.resolved.end()) << key;
  return *found;
}

TEST(parse_scenario, fills_every_kind_of_value) {
  const auto s = parse_well(plain).values;
  EXPECT_EQ(s.run.name, "small");
  EXPECT_EQ(s.run.seed, 7u);
  EXPECT_EQ(s.cluster.ranks, 4u);
  EXPECT_THAT(s.model.layers, testing::ElementsAre(784, 32, 10));
  EXPECT_EQ(s.train.lr, 0.5);
  EXPECT_EQ(s.train.amp, amp_mode::bf16);
  EXPECT_EQ(s.train.bucket_bytes, 65536u);
  EXPECT_EQ(s.supervision.window, 2min);
  ASSERT_EQ(s.chaos.size(), 2u);
  EXPECT_THAT(s.chaos[0].ranks, testing::ElementsAre(1));
  EXPECT_EQ(s.chaos[0].at_iteration, 30u);
  EXPECT_EQ(s.chaos[1].kind, chaos_kind::kill_actor);
  EXPECT_EQ(s.chaos[1].actor, "trainer:3");
  EXPECT_EQ(s.chaos[1].every, 1500ms);
}

TEST(parse_scenario, keeps_the_default_of_what_is_not_said) {
  const auto s = parse_well(plain).values;
  EXPECT_EQ(s.train.global_batch, 128u);
  EXPECT_EQ(s.checkpoint.keep_last, 3u);
  EXPECT_EQ(s.cluster.communicator, "shm");
}

TEST(parse_scenario, takes_a_data_path_from_the_folder_of_the_file) {
  EXPECT_EQ(parse_well(plain).values.data.path, "/home/me/data/mnist");
  EXPECT_EQ(parse_well(plain, {"data.path=/elsewhere/./mnist"}).values.data.path,
            "/elsewhere/mnist");
}

TEST(parse_scenario, takes_an_overriding_data_path_from_the_current_directory) {
  EXPECT_EQ(parse_well(plain, {"data.path=mnist"}).values.data.path,
            std::filesystem::current_path() / "mnist");
}

TEST(parse_scenario, leaves_the_run_directory_to_the_current_directory) {
  EXPECT_EQ(parse_well(plain).values.run.directory, "runs");
}

TEST(parse_scenario, says_where_each_value_came_from) {
  const auto loaded = parse_well(plain, {"train.lr=0.05"});
  EXPECT_EQ(resolved(loaded, "train.lr").value, "0.05");
  EXPECT_EQ(resolved(loaded, "train.lr").where, "--set");
  EXPECT_EQ(resolved(loaded, "train.lr").origin, value_origin::override_flag);
  EXPECT_EQ(resolved(loaded, "supervision.window").value, "\"2min\"");
  EXPECT_EQ(resolved(loaded, "supervision.window").where, "a.toml:23");
  EXPECT_EQ(resolved(loaded, "train.epochs").value, "1");
  EXPECT_EQ(resolved(loaded, "train.epochs").where, "default");
  EXPECT_EQ(resolved(loaded, "chaos[0].rank").where, "a.toml:27");
}

TEST(parse_scenario, says_which_of_two_spellings_a_fault_came_from) {
  const auto loaded =
      parse_well(std::string{valid} + "[[chaos]]\nkind = \"kill\"\nranks = [1]\nevery = 50\n");
  EXPECT_EQ(resolved(loaded, "chaos[0].rank").where, "a.toml:7");
  EXPECT_EQ(resolved(loaded, "chaos[0].every_iterations").value, "50");
  EXPECT_EQ(resolved(loaded, "chaos[0].every_iterations").where, "a.toml:8");
}

TEST(check_scenario, finds_nothing_wrong_with_what_was_parsed) {
  EXPECT_THAT(check_scenario(parse_well(plain).values), testing::IsEmpty());
}

TEST(check_scenario, finds_what_a_program_got_wrong) {
  auto s = parse_well(plain).values;
  s.run.name = "";
  s.train.lr = std::nan("");
  s.cluster.ranks = 5;
  s.chaos[0].every = 3s;
  std::vector<std::string> lines;
  for (const auto& fault : check_scenario(s)) lines.push_back(fault.describe());
  EXPECT_THAT(lines,
              testing::UnorderedElementsAre(
                  testing::StartsWith("run.name: expected a word"),
                  "train.lr: expected a number greater than 0, found nan",
                  testing::StartsWith("cluster.ranks: expected at most 4 ranks, found 5"),
                  testing::StartsWith("chaos[0].every: expected exactly one of at_iteration")));
}

TEST(diagnostic, leaves_out_what_it_does_not_have) {
  EXPECT_EQ(
      (diagnostic{"a.toml", 12, "train.lr", "a number greater than 0", "-0.1", ""}).describe(),
      "a.toml:12: train.lr: expected a number greater than 0, found -0.1");
  EXPECT_EQ((diagnostic{"x.idx", 0, "", "10 labels", "9", "copy it anew"}).describe(),
            "x.idx: expected 10 labels, found 9; copy it anew");
}

TEST(to_toml, is_read_back_to_the_same) {
  const auto first = parse_well(plain).values;
  const auto text = to_toml(first);
  const auto second = parse_well(text).values;
  EXPECT_EQ(second, first);
  EXPECT_EQ(to_toml(second), text);
}

}  // namespace
}  // namespace ftrt::testing_scenario
