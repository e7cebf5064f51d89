#include <gtest/gtest.h>

#include <actors/control/checkpoint.hpp>

namespace ftrt::actors {
namespace {

snapshot_part part_from(std::uint32_t rank) {
  auto worker = std::make_shared<host::worker_entry>();
  worker->rank = rank_id{rank};
  return {std::move(worker), rank};
}

protocol::snapshot_ready ready(std::uint64_t iteration, std::uint32_t part,
                               std::uint64_t generation = 1, std::uint32_t parts = 2) {
  return {generation_id{generation}, branch_id{1}, iteration_id{iteration}, 0, part, parts, false};
}

TEST(snapshot_collector, a_set_is_complete_with_its_last_part_and_only_then) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.add(ready(100, 1), part_from(1)));
  const auto set = collector.add(ready(100, 0), part_from(0));
  ASSERT_TRUE(set);
  EXPECT_EQ(set->iteration, iteration_id{100});
  EXPECT_EQ(set->parts[0].worker->rank, rank_id{0});
  EXPECT_EQ(set->parts[1].worker->rank, rank_id{1});
  EXPECT_EQ(collector.incomplete(), 0U);
}

TEST(snapshot_collector, parts_of_two_generations_never_make_one_set) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.add(ready(100, 0, 1), part_from(0)));
  EXPECT_FALSE(collector.add(ready(100, 1, 2), part_from(1)));
  EXPECT_TRUE(collector.add(ready(100, 0, 2), part_from(0)));
}

TEST(snapshot_collector, what_a_rollback_left_incomplete_does_not_crowd_out_lower_iterations) {
  snapshot_collector collector;
  for (std::uint64_t generation = 1; generation <= 10; ++generation) {
    EXPECT_FALSE(collector.add(ready(1000, 0, generation), part_from(0)));
  }
  EXPECT_FALSE(collector.add(ready(500, 0, 11), part_from(0)));
  EXPECT_TRUE(collector.add(ready(500, 1, 11), part_from(1)));
}

TEST(snapshot_collector, sets_that_never_complete_do_not_pile_up) {
  snapshot_collector collector;
  for (std::uint64_t iteration = 1; iteration <= 1000; ++iteration) {
    EXPECT_FALSE(collector.add(ready(iteration, 0), part_from(0)));
  }
  EXPECT_LE(collector.incomplete(), 4U);
}

TEST(snapshot_collector, impossible_part_numbers_are_dropped) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.add(ready(1, 2), part_from(2)));
  EXPECT_FALSE(collector.add(ready(1, 0, 1, 0), part_from(0)));
  EXPECT_EQ(collector.incomplete(), 0U);
  EXPECT_FALSE(collector.add(ready(1, 0, 1, 2), part_from(0)));
  EXPECT_FALSE(collector.add(ready(1, 1, 1, 3), part_from(1))) << "another count of parts";
}

snapshot_set whole(std::uint64_t iteration, std::uint64_t generation = 1) {
  return {generation_id{generation},
          branch_id{1},
          iteration_id{iteration},
          {part_from(0), part_from(1)}};
}

TEST(snapshot_collector, what_nobody_told_of_is_found_at_the_second_look) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.unsaid({whole(50), whole(100)}));
  const auto found = collector.unsaid({whole(50), whole(100)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->iteration, iteration_id{100}) << "the older one is worth less";
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(collector.unsaid({whole(50), whole(100)})) << "once";
  EXPECT_FALSE(collector.unsaid({whole(20, 2)}));
  EXPECT_TRUE(collector.unsaid({whole(20, 2)})) << "newer by its generation";
}

TEST(snapshot_collector, a_word_that_comes_between_two_looks_is_all_that_counts) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.unsaid({whole(100)}));
  EXPECT_FALSE(collector.add(ready(100, 0), part_from(0)));
  EXPECT_TRUE(collector.add(ready(100, 1), part_from(1)));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(collector.unsaid({whole(100)}));
}

TEST(snapshot_collector, late_words_of_what_was_found_are_no_news) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.unsaid({whole(100)}));
  EXPECT_TRUE(collector.is_news(ready(100, 0))) << "nothing was found yet";
  EXPECT_TRUE(collector.unsaid({whole(100)}));
  EXPECT_FALSE(collector.is_news(ready(50, 0)));
  EXPECT_FALSE(collector.is_news(ready(100, 1)));
  EXPECT_TRUE(collector.is_news(ready(150, 0)));
  EXPECT_TRUE(collector.is_news(ready(20, 0, 2))) << "newer by its generation";
  EXPECT_FALSE(collector.add(ready(150, 0), part_from(0)));
  EXPECT_TRUE(collector.is_news(ready(150, 1))) << "a part is missing yet";
  EXPECT_TRUE(collector.add(ready(150, 1), part_from(1)));
  EXPECT_FALSE(collector.is_news(ready(150, 1)));
}

// Where a new one is there at each look, and no word comes of any.
TEST(snapshot_collector, steps_that_are_faster_than_the_looks_do_not_keep_it_from_finding_them) {
  snapshot_collector collector;
  EXPECT_FALSE(collector.unsaid({whole(100)}));
  for (std::uint64_t last = 200; last < 1000; last += 100) {
    const auto found = collector.unsaid({whole(last - 50), whole(last)});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->iteration, iteration_id{last});
  }
  EXPECT_FALSE(collector.unsaid({}));
  EXPECT_FALSE(collector.unsaid({whole(2000)}));
}

TEST(snapshot_collector, words_that_come_though_they_are_late_are_waited_for) {
  snapshot_collector collector;
  for (std::uint64_t last = 100; last < 1000; last += 50) {
    EXPECT_FALSE(collector.unsaid({whole(last), whole(last + 50)}));
    EXPECT_FALSE(collector.add(ready(last, 0), part_from(0)));
    EXPECT_TRUE(collector.add(ready(last, 1), part_from(1)));
  }
}

}  // namespace
}  // namespace ftrt::actors
