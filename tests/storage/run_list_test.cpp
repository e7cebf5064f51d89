#include <gtest/gtest.h>

#include <fstream>
#include <ftrt/catalog.hpp>
#include <storage/catalog.hpp>
#include <storage/run_directory.hpp>
#include <storage/run_lock.hpp>
#include <tests/storage/support.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt {
namespace {

using storage::catalog;
using storage::run_directory;
using storage::testing::child_process;
using storage::testing::signal_pipe;
using test::temporary_folder;

// A run that has begun at `started_ms`, its process gone unless the result is kept.
run_directory begin(const temporary_folder& runs, const std::string& name,
                    std::int64_t started_ms) {
  auto run = run_directory::create(runs.path(), name, "", 0).value();
  std::vector<std::string> notes;
  auto c = catalog::open(run.path(), run.id(), notes).value();
  EXPECT_TRUE(c.begin_run(run.id(), name, started_ms));
  event what;
  what.text = name;
  EXPECT_TRUE(c.add_events(std::vector{what}));
  return run;
}

TEST(run_list, runs_come_oldest_first_and_other_folders_are_skipped) {
  const temporary_folder runs;
  const auto late = begin(runs, "late", 300).id();
  const auto early = begin(runs, "early", 100).id();
  std::filesystem::create_directory(runs.path() / "not-a-run");
  std::ofstream{runs.path() / "file"} << "x";
  const auto rows = list_runs(runs.path()).value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].run_id, early);
  EXPECT_EQ(rows[1].run_id, late);
  EXPECT_EQ(rows[1].directory, runs.path() / late);
}

TEST(run_list, a_run_is_running_only_while_somebody_holds_it) {
  const temporary_folder runs;
  {
    const auto living = begin(runs, "living", 1);
    EXPECT_EQ(list_runs(runs.path())->at(0).status, "running");
  }
  EXPECT_EQ(list_runs(runs.path())->at(0).status, "interrupted");
}

TEST(run_list, C05_a_run_that_has_only_taken_its_lock_is_running_and_the_newest) {
  const temporary_folder runs;
  const auto older = begin(runs, "older", 100);
  const auto folder = runs.path() / "begins";
  std::filesystem::create_directory(folder);
  {
    const auto lock = storage::run_lock::take(folder).value();
    const auto newest = find_run(runs.path(), "").value();
    EXPECT_EQ(newest.run_id, "begins");
    EXPECT_EQ(newest.status, "running");
  }
  EXPECT_EQ(list_runs(runs.path())->size(), 1U);
}

TEST(run_list, a_damaged_run_is_listed_and_does_not_hide_the_others) {
  const temporary_folder runs;
  const auto whole = begin(runs, "whole", 100).id();
  const auto broken = begin(runs, "broken", 200).path();
  std::ofstream{broken / "catalog.sqlite", std::ios::trunc} << std::string(9000, 'x');
  const auto rows = list_runs(runs.path()).value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].status, "damaged");
  EXPECT_EQ(rows[0].directory, broken);
  EXPECT_EQ(rows[1].run_id, whole);
  EXPECT_EQ(find_run(runs.path(), "")->run_id, whole);
}

TEST(run_list, a_run_is_found_by_any_unique_beginning_of_its_id) {
  const temporary_folder runs;
  const auto a = begin(runs, "alpha", 1).id();
  const auto b = begin(runs, "alps", 2).id();
  EXPECT_EQ(find_run(runs.path(), "alph")->run_id, a);
  EXPECT_EQ(find_run(runs.path(), b)->run_id, b);
  EXPECT_EQ(find_run(runs.path(), "")->run_id, b);
  const auto several = find_run(runs.path(), "al");
  EXPECT_EQ(several.error().code, error_code::invalid_argument);
  EXPECT_NE(several.error().message.find(a + ", " + b), std::string::npos);
  EXPECT_EQ(find_run(runs.path(), "x").error().code, error_code::not_found);
}

TEST(run_list, folders_without_runs_are_told_apart_from_missing_ones) {
  const temporary_folder runs;
  EXPECT_TRUE(list_runs(runs.path())->empty());
  EXPECT_EQ(find_run(runs.path(), "").error().code, error_code::not_found);
  EXPECT_EQ(list_runs(runs.path() / "none").error().code, error_code::not_found);
}

TEST(run_list, events_and_checkpoints_are_read_beside_a_living_run) {
  const temporary_folder runs;
  const auto run = begin(runs, "living", 1);
  EXPECT_EQ(list_events(run.path())->at(0).text, "living");
  EXPECT_TRUE(list_checkpoints(run.path())->empty());
  EXPECT_EQ(list_events(runs.path()).error().code, error_code::not_found);
}

}  // namespace
}  // namespace ftrt
