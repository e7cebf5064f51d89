#include <gtest/gtest.h>

#include <actors/control/restart_budget.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

TEST(restart_budget, an_actor_that_dies_now_and_then_is_restarted_at_once_for_ever) {
  restart_budget budget{10, 1min, 5s};
  for (auto now = 0s; now < 24h; now += 7s) EXPECT_EQ(budget.next(now), 0ns);
}

TEST(restart_budget, one_that_dies_again_and_again_waits_longer_each_time_up_to_the_longest) {
  restart_budget budget{1000, 1min, 5s};
  std::chrono::nanoseconds before{0};
  for (int death = 1; death <= 5; ++death) EXPECT_EQ(budget.next(1s), 0ns);
  for (int death = 6; death <= 14; ++death) {
    const auto delay = budget.next(1s);
    ASSERT_TRUE(delay);
    EXPECT_GT(*delay, before);
    before = *delay;
  }
  for (int death = 15; death <= 100; ++death) EXPECT_LE(budget.next(1s).value(), 5s);
}

TEST(restart_budget, is_spent_after_so_many_within_the_window_and_whole_again_after_it) {
  restart_budget budget{3, 10s, 5s};
  for (const auto now : {1s, 2s, 3s}) EXPECT_TRUE(budget.next(now));
  EXPECT_FALSE(budget.next(4s));
  EXPECT_TRUE(budget.next(12s)) << "the first one is out of the window";
  EXPECT_FALSE(budget.next(12s));
}

}  // namespace
}  // namespace ftrt::actors
