// Nobody survives, and what the ranks would be restored from is damaged: each rung of the ladder of
// state is tried until one verifies, and what failed is set aside with an event.

#include <gtest/gtest.h>

#include "tests/process/stopped_run.hpp"

namespace ftrt::test {
namespace {

TEST_F(stopped_run, killed_by_hand_comes_back_from_the_newest_snapshot) {
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "snapshot:" + std::to_string(newest_));
    EXPECT_LT(recovery["lost_iterations"], 2 * apart);
  }
  EXPECT_TRUE(events("checkpoint_quarantined").empty());
  expect_fault_free(done);
}

TEST_F(stopped_run, with_damaged_snapshots_comes_back_from_the_checkpoint) {
  damage_snapshots();
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "checkpoint:" + std::to_string(newest_));
  }
  EXPECT_TRUE(events("checkpoint_quarantined").contains("snapshot:" + std::to_string(newest_)));
  expect_fault_free(done);
}

TEST_F(stopped_run, with_a_damaged_checkpoint_too_comes_back_from_the_one_before) {
  damage_snapshots();
  damage_checkpoint(newest_);
  EXPECT_EQ(damaged_files_, 2U) << "a file for each rank's part";
  const auto done = kill_all();
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "checkpoint:" + std::to_string(newest_ - apart));
    EXPECT_GE(recovery["lost_iterations"], apart);
  }
  const auto set_aside = events("checkpoint_quarantined");
  EXPECT_TRUE(set_aside.contains("snapshot:" + std::to_string(newest_)));
  EXPECT_TRUE(set_aside.contains("checkpoint:" + std::to_string(newest_)));
  expect_fault_free(done);
}

}  // namespace
}  // namespace ftrt::test
