#include <gtest/gtest.h>

#include <actors/host/run_board.hpp>
#include <cmath>

namespace ftrt::host {
namespace {

storage::progress_record commit(std::uint64_t iteration, std::uint64_t generation = 1) {
  storage::progress_record record;
  record.iteration = iteration;
  record.generation = generation;
  record.optimizer_step = iteration;
  record.samples = 100;
  record.step_ns = 1'000'000;
  record.committed_ns = static_cast<std::int64_t>(iteration) * 1'000'000;
  record.loss = 1.0 / static_cast<double>(iteration);
  return record;
}

run_board board_of(std::uint64_t total) {
  return {"run-1", 2, total, 10};
}

TEST(run_board, a_record_past_the_end_of_the_run_moves_nothing) {
  auto board = board_of(100);
  EXPECT_TRUE(board.count(commit(1)));
  EXPECT_FALSE(board.count(commit(101)));
  EXPECT_FALSE(board.count(commit(std::uint64_t{1} << 40)));
  EXPECT_TRUE(board.count(commit(2)));
  EXPECT_EQ(board.last_iteration(), 2U);
}

TEST(run_board, each_iteration_counts_once_however_many_ranks_report_it) {
  auto board = board_of(100);
  EXPECT_TRUE(board.count(commit(1)));
  EXPECT_FALSE(board.count(commit(1)));
  EXPECT_TRUE(board.count(commit(2)));
  const auto summary = board.summary();
  EXPECT_EQ(summary.iterations, 2U);
  EXPECT_DOUBLE_EQ(summary.goodput, 1.0);
  EXPECT_DOUBLE_EQ(summary.samples_per_second, 100'000);
}

TEST(run_board, a_rollback_voids_what_was_committed_past_it_and_costs_goodput) {
  auto board = board_of(100);
  for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_TRUE(board.count(commit(i)));
  board.roll_back_to(iteration_id{40}, generation_id{2}, iteration_id{50});
  EXPECT_EQ(board.last_iteration(), 40U);
  EXPECT_FALSE(board.count(commit(45, 1))) << "a late word of the generation before";
  for (std::uint64_t i = 41; i <= 50; ++i) EXPECT_TRUE(board.count(commit(i, 2)));
  EXPECT_NEAR(board.summary().goodput, 50.0 / 60.0, 1e-9);
}

TEST(run_board, commits_that_became_void_unread_cost_goodput_too) {
  auto board = board_of(100);
  for (std::uint64_t i = 1; i <= 45; ++i) EXPECT_TRUE(board.count(commit(i)));
  board.roll_back_to(iteration_id{40}, generation_id{2}, iteration_id{50});
  for (std::uint64_t i = 41; i <= 50; ++i) EXPECT_TRUE(board.count(commit(i, 2)));
  EXPECT_NEAR(board.summary().goodput, 50.0 / 60.0, 1e-9);
  board.roll_back_to(iteration_id{50}, generation_id{3}, iteration_id{~std::uint64_t{0}});
  EXPECT_NEAR(board.summary().goodput, 50.0 / 110.0, 1e-9) << "no more than the run can have";
}

TEST(run_board, commits_before_the_target_of_a_rollback_are_counted_once_though_read_after_it) {
  auto board = board_of(100);
  for (std::uint64_t i = 1; i <= 40; ++i) EXPECT_TRUE(board.count(commit(i)));
  board.roll_back_to(iteration_id{45}, generation_id{2}, iteration_id{50});
  for (std::uint64_t i = 41; i <= 45; ++i) EXPECT_TRUE(board.count(commit(i, 1)));
  for (std::uint64_t i = 46; i <= 50; ++i) EXPECT_TRUE(board.count(commit(i, 2)));
  EXPECT_NEAR(board.summary().goodput, 50.0 / 55.0, 1e-9);
}

TEST(run_board, what_was_never_measured_is_no_number) {
  const auto summary = board_of(100).summary();
  EXPECT_TRUE(std::isnan(summary.train_loss));
  EXPECT_TRUE(std::isnan(summary.samples_per_second));
  EXPECT_TRUE(std::isnan(summary.goodput));
  EXPECT_TRUE(std::isnan(run_summary{}.wall_seconds));
}

TEST(run_board, an_abandoned_iteration_costs_goodput_and_nothing_else) {
  auto board = board_of(100);
  for (std::uint64_t i = 1; i <= 9; ++i) EXPECT_TRUE(board.count(commit(i)));
  board.count_redone();
  EXPECT_TRUE(board.count(commit(10, 2)));
  EXPECT_NEAR(board.summary().goodput, 10.0 / 11.0, 1e-9);
  EXPECT_EQ(board.summary().iterations, 10U);
}

TEST(run_board, an_evaluation_counts_once_and_accuracy_is_unknown_before_it) {
  auto board = board_of(100);
  EXPECT_TRUE(std::isnan(board.latest().test_accuracy));
  storage::progress_record evaluation;
  evaluation.kind = storage::record_kind::evaluation;
  evaluation.iteration = 10;
  evaluation.generation = 1;
  evaluation.accuracy = 0.9;
  EXPECT_TRUE(board.count(evaluation));
  EXPECT_FALSE(board.count(evaluation));
  EXPECT_DOUBLE_EQ(board.latest().test_accuracy, 0.9);
  board.roll_back_to(iteration_id{5}, generation_id{2}, iteration_id{10});
  evaluation.generation = 2;
  EXPECT_TRUE(board.count(evaluation)) << "made again after the rollback";
}

TEST(run_board, a_digest_counts_as_nothing_and_a_rollback_takes_back_what_was_agreed) {
  auto board = board_of(100);
  const auto digest = storage::digest_record(generation_id{1}, iteration_id{10}, {7, 9});
  EXPECT_FALSE(board.count(digest));
  EXPECT_EQ(board.last_iteration(), 0U);
  board.set_agreed(iteration_id{30});
  board.set_agreed(iteration_id{20});
  EXPECT_EQ(board.agreed(), iteration_id{30});
  board.roll_back_to(iteration_id{25}, generation_id{2}, iteration_id{30});
  EXPECT_EQ(board.agreed(), iteration_id{25});
}

TEST(run_board, the_newest_checkpoint_stays_the_newest_until_a_rollback_goes_behind_it) {
  auto board = board_of(100);
  board.set_membership({generation_id{1}, branch_id{1}, {}, {}});
  board.set_checkpoint(branch_id{1}, iteration_id{60}, 1);
  board.set_checkpoint(branch_id{1}, iteration_id{50}, 1);
  EXPECT_EQ(board.last_checkpoint_iteration(), 60U) << "found late by a new checkpoint actor";
  board.roll_back_to(iteration_id{55}, generation_id{2}, iteration_id{60});
  EXPECT_EQ(board.last_checkpoint_iteration(), 50U) << "none past it is history";
  board.set_membership({generation_id{2}, branch_id{2}, generation_id{2}, iteration_id{55}});
  EXPECT_TRUE(board.is_history(branch_id{1}, iteration_id{55}));
  EXPECT_FALSE(board.is_history(branch_id{1}, iteration_id{60}));
  board.set_checkpoint(branch_id{1}, iteration_id{70}, 1);
  EXPECT_EQ(board.last_checkpoint_iteration(), 50U) << "the disk came to it after the rollback";
  board.set_checkpoint(branch_id{2}, iteration_id{60}, 1);
  EXPECT_EQ(board.last_checkpoint_iteration(), 60U);
  EXPECT_EQ(board.summary().last_checkpoint_iteration, 60U);
  EXPECT_EQ(board.summary().checkpoints_committed, 4U);
}

TEST(run_board, a_branch_that_was_left_stays_void_whatever_comes_after_it) {
  auto board = board_of(100);
  board.set_membership({generation_id{1}, branch_id{1}, {}, {}});
  board.set_membership({generation_id{2}, branch_id{2}, generation_id{2}, iteration_id{50}});
  board.set_membership({generation_id{3}, branch_id{2}, generation_id{2}, iteration_id{80}});
  EXPECT_TRUE(board.is_history(branch_id{1}, iteration_id{50}));
  EXPECT_FALSE(board.is_history(branch_id{1}, iteration_id{70})) << "a rank was replaced at 80";
  board.set_membership({generation_id{4}, branch_id{3}, generation_id{4}, iteration_id{75}});
  EXPECT_FALSE(board.is_history(branch_id{1}, iteration_id{70})) << "though it is before 75";
  EXPECT_TRUE(board.is_history(branch_id{2}, iteration_id{70}));
  EXPECT_FALSE(board.is_history(branch_id{2}, iteration_id{76}));
  EXPECT_TRUE(board.is_history(branch_id{3}, iteration_id{90}));
}

TEST(run_board, a_request_to_stop_outlives_whoever_heard_it_and_the_first_reason_stays) {
  auto board = board_of(100);
  EXPECT_FALSE(board.stop_reason());
  board.request_stop("SIGTERM");
  board.request_stop("SIGINT");
  EXPECT_EQ(board.stop_reason(), "SIGTERM");
}

}  // namespace
}  // namespace ftrt::host
