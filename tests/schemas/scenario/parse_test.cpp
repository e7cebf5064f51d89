#include <gmock/gmock.h>

#include <ftrt/scenario.hpp>

namespace ftrt {
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

std::string describe(const std::vector<diagnostic>& faults) {
  std::string text;
  for (const auto& fault : faults) text += fault.describe() + "\n";
  return text;
}

loaded_scenario parse_well(std::string_view text, const std::vector<std::string>& overrides = {}) {
  auto loaded = parse_scenario(text, "a.toml", "/home/me/scenarios", overrides);
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : describe(loaded.error()));
  return loaded ? *loaded : loaded_scenario{};
}

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

TEST(to_toml, is_read_back_to_the_same) {
  const auto first = parse_well(plain).values;
  const auto text = to_toml(first);
  const auto second = parse_well(text).values;
  EXPECT_EQ(to_toml(second), text);
  EXPECT_EQ(second.data.path, first.data.path);
  EXPECT_EQ(second.chaos[1].every, first.chaos[1].every);
}

}  // namespace
}  // namespace ftrt
