#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <schemas/random.hpp>
#include <schemas/sample_order.hpp>
#include <set>

namespace ftrt::data {
namespace {

// By the formula that says what fair means, with bounds of which half of all words are unfair.
TEST(counter_random, takes_the_remainder_of_the_first_fair_word) {
  constexpr auto all = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t key = 77;
  counter_random random{key};
  counter_random words{key};
  for (const std::uint64_t bound :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{60000},
        std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 1, all - 1, all}) {
    for (int draws = 0; draws < 100; ++draws) {
      std::uint64_t word = words.next();
      while (word >= all - all % bound) word = words.next();
      ASSERT_EQ(random.below(bound), word % bound) << bound;
    }
  }
}

TEST(sample_order, an_epoch_is_a_permutation_that_seed_and_epoch_alone_decide) {
  const auto order = epoch_order(3, 5, 1000, true);
  EXPECT_EQ(order, epoch_order(3, 5, 1000, true));
  EXPECT_NE(order, epoch_order(3, 6, 1000, true));
  EXPECT_NE(order, epoch_order(4, 5, 1000, true));
  auto sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, epoch_order(3, 5, 1000, false));
  EXPECT_TRUE(std::ranges::is_sorted(epoch_order(3, 5, 1000, false)));
}

TEST(sample_order, every_position_is_about_equally_likely) {
  std::map<std::uint32_t, int> first;
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) ++first[epoch_order(1, epoch, 6, true)[0]];
  ASSERT_EQ(first.size(), 6U);
  for (const auto& [id, count] : first) EXPECT_NEAR(count, 1000, 150) << id;
}

// C23: each epoch's multiset of sample ids, also when training stops and goes on in its midst, for
// any number of ranks: windows and shares hold no position that could be lost.
TEST(sample_order, C23_each_epoch_uses_every_sample_once_whatever_the_ranks) {
  counter_random random{2024};
  for (int round = 0; round < 200; ++round) {
    const auto batch = 1 + random.below(40);
    const auto samples = batch + random.below(300);
    const auto micro = 1 + random.below(12);
    const auto ranks = static_cast<std::uint32_t>(1 + random.below(8));
    SCOPED_TRACE(std::to_string(samples) + " samples, batch " + std::to_string(batch) +
                 ", micro-batch " + std::to_string(micro) + ", ranks " + std::to_string(ranks));
    const sample_schedule plan{samples, batch, micro, last_window::keep};
    const auto order = epoch_order(9, 1, samples, true);
    std::multiset<std::uint32_t> used;
    const auto per_epoch = plan.iterations_per_epoch();
    for (std::uint64_t k = per_epoch + 1; k <= 2 * per_epoch; ++k) {
      const auto window = plan.window_of(iteration_id{k});
      ASSERT_EQ(window.epoch, 1U);
      ASSERT_EQ(window.last_of_epoch, k == 2 * per_epoch);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto mine = share_of(plan.micro_batches(window), rank_id{r}, ranks);
        for (auto m = mine.begin; m < mine.end; ++m) {
          const auto positions = plan.micro_batch(window, m);
          ASSERT_GT(positions.size(), 0U);
          ASSERT_LE(positions.size(), micro);
          for (auto p = positions.begin; p < positions.end; ++p) used.insert(order[p]);
        }
      }
    }
    std::multiset<std::uint32_t> all(order.begin(), order.end());
    ASSERT_EQ(used, all);
    ASSERT_EQ(plan.window_of(iteration_id{2 * per_epoch}).consumed, 2 * samples);
  }
}

TEST(sample_order, a_dropped_last_window_leaves_whole_windows_only) {
  const sample_schedule plan{100, 32, 8, last_window::drop};
  EXPECT_EQ(plan.iterations_per_epoch(), 3U);
  EXPECT_EQ(plan.samples_per_epoch(), 96U);
  for (std::uint64_t k = 1; k <= 6; ++k) {
    EXPECT_EQ(plan.window_of(iteration_id{k}).positions.size(), 32U);
  }
  EXPECT_EQ(plan.window_of(iteration_id{4}).consumed, 128U);
}

// C28: uneven data: who has what is agreed by arithmetic, before the epoch.
TEST(sample_order, C28_shares_are_contiguous_balanced_and_may_be_empty) {
  for (std::uint64_t count = 0; count < 40; ++count) {
    for (std::uint32_t ranks = 1; ranks <= 8; ++ranks) {
      std::uint64_t end = 0;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto mine = share_of(count, rank_id{r}, ranks);
        ASSERT_EQ(mine.begin, end);
        ASSERT_LE(mine.size(), (count + ranks - 1) / ranks);
        ASSERT_GE(mine.size(), count / ranks);
        end = mine.end;
      }
      ASSERT_EQ(end, count);
    }
  }
}

TEST(random, below_reaches_every_value_and_none_beyond) {
  counter_random random{1};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(*seen.rbegin(), 6U);
}

}  // namespace
}  // namespace ftrt::data
