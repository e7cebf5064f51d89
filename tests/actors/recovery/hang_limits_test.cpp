// How long a rank may make no progress: tuned from the run, and bounds of their own.

#include <gtest/gtest.h>

#include <actors/recovery/progress_watch.hpp>
#include <limits>

#include "tests/actors/recovery/watched_group.hpp"

namespace ftrt::recovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using storage::train_phase;
using group = watched_group;

const auto in = &group::hangs_in;
const auto waits = &group::waits_in;

struct limit_case {
  const char* name;
  milliseconds step;
  milliseconds limit;
};

class a_limit : public ::testing::TestWithParam<limit_case> {};

TEST_P(a_limit, C06_is_tuned_from_the_run_s_own_steps) {
  group g(2);
  g.all_do(group::trains(GetParam().step));
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(named(g.tick()), "");
  EXPECT_GE(g.watch.step_limit(), GetParam().limit);
  EXPECT_LE(g.watch.step_limit(), GetParam().limit + 20 * milliseconds(20));
}

INSTANTIATE_TEST_SUITE_P(table, a_limit,
                         ::testing::Values(limit_case{"fast", milliseconds(1), milliseconds(500)},
                                           limit_case{"medium", milliseconds(60), seconds(1)},
                                           limit_case{"slow", seconds(2), seconds(40)}),
                         [](const auto& of) { return std::string{of.param.name}; });

TEST(progress_watch, C06_a_few_slow_steps_do_not_stretch_the_limit_and_many_do) {
  group g(2);
  g.warm_up();
  g.all_do(group::trains(milliseconds(400)));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(named(g.tick()), "");  // two of them
  EXPECT_EQ(g.watch.step_limit(), milliseconds(500));
  for (int i = 0; i < 400; ++i) EXPECT_EQ(named(g.tick()), "");
  EXPECT_GE(g.watch.step_limit(), seconds(8));
}

TEST(progress_watch, C06_before_the_steps_are_known_the_first_bound_holds) {
  watch_limits limits;
  limits.first = seconds(5);
  group g(2, limits);
  g.does(0, in(train_phase::compute));
  g.does(1, waits(train_phase::all_reduce));
  EXPECT_EQ(named(g.until_found(seconds(10))), "0");
  EXPECT_GE(g.passed, seconds(5));
}

TEST(progress_watch, C06_a_few_fast_steps_are_known_at_the_second_look_and_slow_ones_at_the_fifth) {
  group fast(2);
  fast.all_do(group::trains(milliseconds(2)));
  for (int i = 0; i < 2; ++i) static_cast<void>(fast.tick());
  EXPECT_EQ(fast.watch.step_limit(), milliseconds(500));
  group slow(2);
  slow.all_do(group::trains(milliseconds(20)));
  for (int i = 0; i < 5; ++i) static_cast<void>(slow.tick());
  EXPECT_EQ(slow.watch.step_limit(), minutes(1));
  static_cast<void>(slow.tick());
  EXPECT_EQ(slow.watch.step_limit(), milliseconds(500));
}

TEST(progress_watch, C06_a_new_generation_gets_longer_for_its_first_iteration) {
  group g(2);
  g.warm_up();
  g.group.generation = generation_id{4};
  for (auto& s : g.seen) s.page.generation = g.group.generation;
  g.does(0, in(train_phase::compute));
  g.does(1, waits(train_phase::all_reduce));
  EXPECT_EQ(named(g.until_found(seconds(3))), "0");
  EXPECT_GE(g.passed, seconds(1));
}

struct slow_phase {
  const char* name;
  train_phase phase;
};
class a_slow_phase : public ::testing::TestWithParam<slow_phase> {};

TEST_P(a_slow_phase, C06_restarts_nobody_until_its_own_bound_has_passed) {
  watch_limits limits;
  limits.evaluate = limits.save = seconds(30);
  limits.state_bytes = std::uint64_t{100} << 30;
  group g(2, limits);
  g.warm_up();
  g.does(0, waits(train_phase::all_reduce));
  g.does(1, in(GetParam().phase));
  EXPECT_EQ(named(g.until_found(seconds(60))), "1");
  EXPECT_GE(g.passed, seconds(30));
  EXPECT_LE(g.passed, seconds(31));
}

INSTANTIATE_TEST_SUITE_P(table, a_slow_phase,
                         ::testing::Values(slow_phase{"evaluation", train_phase::evaluating},
                                           slow_phase{"save", train_phase::snapshot}),
                         [](const auto& of) { return std::string{of.param.name}; });

TEST(progress_watch, C06_a_save_gets_time_by_what_there_is_to_save) {
  watch_limits limits;
  limits.state_bytes = 10'000'000;
  EXPECT_EQ(progress_watch{limits}.save_limit(), milliseconds(600));
  limits.state_bytes = 1'000'000'000;
  EXPECT_EQ(progress_watch{limits}.save_limit(), milliseconds(10'500));
  limits.state_bytes = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(progress_watch{limits}.save_limit(), minutes(1));
}

TEST(progress_watch, C06_once_an_evaluation_was_seen_to_its_end_the_next_ones_are_held_to_it) {
  group g(2);
  g.warm_up();
  EXPECT_EQ(g.watch.evaluation_limit(), minutes(1));
  g.all_do(group::works_in(train_phase::evaluating, milliseconds(200)));
  EXPECT_EQ(named(g.until_found(seconds(10))), "");
  EXPECT_EQ(g.watch.evaluation_limit(), minutes(1)) << "it may yet hang";
  g.all_do(group::trains(milliseconds(5)));
  g.warm_up();
  EXPECT_EQ(g.watch.evaluation_limit(), 20 * milliseconds(200));
  g.does(0, in(train_phase::evaluating));
  g.does(1, waits(train_phase::evaluating));
  EXPECT_EQ(named(g.until_found(minutes(2))), "0");
  EXPECT_LE(g.passed, milliseconds(4100));
}

TEST(progress_watch, C06_an_evaluation_that_gets_on_batch_by_batch_may_take_for_ever) {
  group g(2);
  g.warm_up();
  g.all_do(group::works_in(train_phase::evaluating, seconds(40)));
  EXPECT_EQ(named(g.until_found(minutes(20))), "");
}

}  // namespace
}  // namespace ftrt::recovery
