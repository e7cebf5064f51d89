#include <actors/metrics/series_filter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace ftrt::metrics {
namespace {

constexpr const char* loss = "train/loss";

bool admit(series_filter& filter, std::uint64_t generation, std::uint64_t step) {
  return filter.admit(loss, generation_id{generation}, iteration_id{step});
}

TEST(series_filter, a_step_is_admitted_once_and_in_order) {
  series_filter filter{iteration_id{1}};
  EXPECT_TRUE(admit(filter, 1, 1));
  EXPECT_FALSE(admit(filter, 1, 1));
  EXPECT_TRUE(admit(filter, 1, 3));
  EXPECT_FALSE(admit(filter, 1, 2));
  EXPECT_EQ(filter.refused(), 2u);
}

TEST(series_filter, tags_do_not_hinder_each_other) {
  series_filter filter{iteration_id{1}};
  EXPECT_TRUE(filter.admit("a", generation_id{1}, iteration_id{5}));
  EXPECT_TRUE(filter.admit("b", generation_id{1}, iteration_id{2}));
}

TEST(series_filter, a_resumed_run_does_not_write_before_its_first_step) {
  series_filter filter{iteration_id{101}};
  EXPECT_FALSE(admit(filter, 4, 100));
  EXPECT_TRUE(admit(filter, 4, 101));
}

TEST(series_filter, redone_iterations_are_admitted_after_a_rollback_and_late_ones_are_not) {
  series_filter filter{iteration_id{1}};
  for (std::uint64_t step = 1; step <= 10; ++step) ASSERT_TRUE(admit(filter, 1, step));
  filter.rollback(generation_id{2}, iteration_id{6});
  EXPECT_FALSE(admit(filter, 1, 11)) << "a dead rank's diary, read late";
  EXPECT_FALSE(admit(filter, 2, 5)) << "not part of what was voided";
  for (std::uint64_t step = 6; step <= 12; ++step) EXPECT_TRUE(admit(filter, 2, step));
}

TEST(series_filter, a_deeper_rollback_voids_what_a_shallower_one_left) {
  series_filter filter{iteration_id{1}};
  ASSERT_TRUE(admit(filter, 1, 20));
  filter.rollback(generation_id{2}, iteration_id{15});
  ASSERT_TRUE(admit(filter, 2, 16));
  filter.rollback(generation_id{3}, iteration_id{10});
  EXPECT_FALSE(admit(filter, 2, 12));
  EXPECT_FALSE(admit(filter, 1, 11));
  EXPECT_TRUE(admit(filter, 3, 10));
}

TEST(series_filter, the_number_of_tags_is_bounded) {
  series_filter filter{iteration_id{1}};
  for (std::size_t i = 0; i < series_filter::max_tags; ++i) {
    ASSERT_TRUE(filter.admit("tag" + std::to_string(i), generation_id{1}, iteration_id{1}));
  }
  EXPECT_FALSE(filter.admit("one too many", generation_id{1}, iteration_id{1}));
}

// A run with random rollbacks, its points doubled and late as diaries give them: what a reader
// keeps is each committed step once, with the value of the generation that committed it last.
TEST(series_filter, property_a_reader_keeps_the_committed_history_alone) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (int run = 0; run < 200; ++run) {
    series_filter filter{iteration_id{1}};
    struct point {
      std::uint64_t step, generation;
    };
    std::vector<point> kept, emitted;
    std::vector<std::uint64_t> history;  // generation that committed step i + 1
    std::uint64_t generation = 1;
    const auto offer = [&](const point& p) {
      if (admit(filter, p.generation, p.step)) kept.push_back(p);
    };
    for (int move = 0; move < 60; ++move) {
      const auto choice = random() % 10;
      if (choice == 0 && !history.empty()) {
        const std::uint64_t first = 1 + random() % history.size();
        ++generation;
        history.resize(first - 1);
        filter.rollback(generation_id{generation}, iteration_id{first});
        std::erase_if(kept, [&](const point& p) { return p.step >= first; });  // the reader's START
      } else if (choice <= 2 && !emitted.empty()) {
        offer(emitted[random() % emitted.size()]);
      } else {
        history.push_back(generation);
        emitted.push_back({history.size(), generation});
        offer(emitted.back());
      }
    }
    ASSERT_EQ(kept.size(), history.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i].step, i + 1);
      ASSERT_EQ(kept[i].generation, history[i]);
    }
  }
}

}  // namespace
}  // namespace ftrt::metrics
