#include <gtest/gtest.h>

#include <actors/control/chaos_schedule.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

chaos_entry kill_of(std::uint32_t rank) {
  chaos_entry entry;
  entry.ranks = {rank};
  return entry;
}

TEST(chaos_schedule, a_fault_at_an_iteration_fires_once_even_when_the_poll_is_late) {
  auto entry = kill_of(1);
  entry.at_iteration = 300;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{299}, 1s).empty());
  const auto due = schedule.due(iteration_id{307}, 2s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].ranks, (std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(schedule.due(iteration_id{308}, 3s).empty());
}

TEST(chaos_schedule, iterations_that_come_again_after_a_rollback_fire_nothing_again) {
  auto entry = kill_of(0);
  entry.every_iterations = 100;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_EQ(schedule.due(iteration_id{100}, 1s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{60}, 2s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{100}, 3s).empty());
  EXPECT_EQ(schedule.due(iteration_id{200}, 4s).size(), 1U);
  // A late poll skips to the next multiple instead of firing for each one that it missed.
  EXPECT_EQ(schedule.due(iteration_id{555}, 5s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{599}, 6s).empty());
  EXPECT_EQ(schedule.due(iteration_id{600}, 7s).size(), 1U);
}

TEST(chaos_schedule, wrong_numbers_are_ordered_ahead_of_their_exact_iteration) {
  auto entry = kill_of(1);
  entry.kind = chaos_kind::flip_bit;
  entry.every_iterations = 1000;
  entry.seed = 40;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{1000 - chaos_schedule::lead - 1}, 1s).empty());
  auto due = schedule.due(iteration_id{1000 - chaos_schedule::lead}, 2s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].at_iteration, 1000U);
  EXPECT_TRUE(schedule.due(iteration_id{1100}, 3s).empty());
  due = schedule.due(iteration_id{2000 - chaos_schedule::lead}, 4s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].at_iteration, 2000U);
  EXPECT_NE(due[0].seed, 40U) << "not the same number each time";
}

TEST(chaos_schedule, time_counts_from_the_first_commit) {
  auto entry = kill_of(0);
  entry.every = 2s;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{0}, 100s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{1}, 200s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{2}, 201s).empty());
  EXPECT_EQ(schedule.due(iteration_id{3}, 202s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{4}, 203s).empty());
  EXPECT_EQ(schedule.due(iteration_id{5}, 204s).size(), 1U);
}

TEST(chaos_schedule, random_times_are_a_function_of_the_seed_and_have_the_mean_asked_for) {
  const auto times = [](std::uint64_t seed) {
    auto entry = kill_of(0);
    entry.mtbf = 1s;
    entry.seed = seed;
    chaos_schedule schedule{{entry}, 2};
    std::vector<std::chrono::nanoseconds> fired;
    for (auto now = 0ms; now < 2000s; now += 10ms) {
      if (!schedule.due(iteration_id{1}, now + 1ms).empty()) fired.push_back(now);
    }
    return fired;
  };
  const auto first = times(1);
  EXPECT_EQ(first, times(1));
  EXPECT_NE(first, times(2));
  // 2000 expected; the standard deviation is about 45.
  EXPECT_NEAR(static_cast<double>(first.size()), 2000, 250);
}

TEST(chaos_schedule, all_ranks_means_every_rank_of_the_world_and_a_count_ends_it) {
  chaos_entry entry;
  entry.all_ranks = true;
  entry.every_iterations = 10;
  entry.max_count = 2;
  chaos_schedule schedule{{entry}, 3};
  const auto due = schedule.due(iteration_id{10}, 1s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].ranks, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(schedule.due(iteration_id{20}, 1s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{30}, 1s).empty());
}

TEST(chaos_schedule, poison_is_left_to_the_workers) {
  auto entry = kill_of(1);
  entry.kind = chaos_kind::poison;
  entry.at_iteration = 10;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.empty());
  EXPECT_TRUE(schedule.due(iteration_id{10}, 1s).empty());
}

}  // namespace
}  // namespace ftrt::actors
