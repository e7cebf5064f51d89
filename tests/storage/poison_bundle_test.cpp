#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <storage/poison_bundle.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;

std::string content(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

poison_report report() {
  poison_report r;
  r.run_id = "demo-1";
  r.seed = 7;
  r.rank = rank_id{1};
  r.world_size = 2;
  r.iteration = iteration_id{57};
  r.times = 3;
  r.cause = "killed by signal 6 (SIGABRT)";
  r.stderr_tail = "not \xff UTF-8";
  r.micro_batch = 3;
  r.batches = {{2, {5, 6}}, {3, {900, 1}}};
  return r;
}

TEST(poison_bundle, holds_the_samples_the_cause_and_the_way_to_see_it_again) {
  const temporary_folder run;
  ASSERT_TRUE(write_poison_bundle(run.path(), report()));
  const auto folder = run.path() / "poisoned" / "iteration-57-rank-1";
  const auto bundle = nlohmann::json::parse(content(folder / "bundle.json"));
  EXPECT_EQ(bundle["iteration"], 57);
  EXPECT_EQ(bundle["seed"], 7);
  EXPECT_EQ(bundle["outcome"], "stop");
  EXPECT_EQ(bundle["died_at_micro_batch"], 3);
  EXPECT_EQ(bundle["micro_batches"][1]["sample_ids"], (std::vector{900, 1}));
  EXPECT_EQ(bundle["replay"].size(), 2U);
  EXPECT_EQ(content(folder / "stderr.txt"), "not \xff UTF-8");
  const auto text = content(folder / "README.txt");
  EXPECT_NE(text.find("died 3 times in a row in iteration 57"), std::string::npos);
  EXPECT_NE(text.find("ftrt --scenario '" + (run.path() / "scenario.toml").string() + "'"),
            std::string::npos);
  EXPECT_NE(text.find("poisoned_batch=skip"), std::string::npos);
}

TEST(poison_bundle, of_a_batch_that_was_left_out_is_seen_again_from_the_start_alone) {
  const temporary_folder run;
  auto skipped = report();
  skipped.skipped = true;
  ASSERT_TRUE(write_poison_bundle(run.path(), skipped));
  ASSERT_TRUE(write_poison_bundle(run.path(), skipped)) << "twice is fine";
  const auto bundle = nlohmann::json::parse(
      content(run.path() / poison_folder(skipped.iteration, skipped.rank) / "bundle.json"));
  EXPECT_EQ(bundle["outcome"], "skip");
  EXPECT_EQ(bundle["replay"].size(), 1U);
}

TEST(poison_bundle, a_folder_that_cannot_be_written_is_said) {
  EXPECT_FALSE(write_poison_bundle("/proc/nowhere", report()));
}

}  // namespace
}  // namespace ftrt::storage
