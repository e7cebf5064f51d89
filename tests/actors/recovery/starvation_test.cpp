// A rank that the machine gives no processor is told from one that hangs.

#include <gtest/gtest.h>

#include <actors/recovery/starvation.hpp>

#include "tests/actors/recovery/watched_group.hpp"

namespace ftrt::recovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using storage::train_phase;
using group = watched_group;

// ---- the account --------------------------------------------------------------------------------

processor_use at(milliseconds ran, milliseconds waited, bool runnable = true) {
  return {ran, waited, runnable};
}

TEST(starvation, is_unknown_until_the_kernel_was_heard) {
  starvation starved;
  EXPECT_FALSE(starved.total());
  starved.note(seconds(1), std::nullopt);
  EXPECT_FALSE(starved.total());
  starved.note(seconds(2), at(milliseconds(5), milliseconds(7)));
  EXPECT_EQ(starved.total(), milliseconds(7));
}

TEST(starvation, counts_a_wait_that_lasts_and_counts_it_once) {
  starvation starved;
  starved.note(milliseconds(1000), at(milliseconds(5), milliseconds(7)));
  starved.note(milliseconds(1020), at(milliseconds(5), milliseconds(7)));
  EXPECT_EQ(starved.total(), milliseconds(7)) << "an account may be this late";
  starved.note(milliseconds(1300), at(milliseconds(5), milliseconds(7)));
  EXPECT_EQ(starved.total(), milliseconds(307));
  starved.note(milliseconds(1400), at(milliseconds(6), milliseconds(400)));
  EXPECT_EQ(starved.total(), milliseconds(400));
}

TEST(starvation, sleep_is_none_of_it) {
  starvation starved;
  starved.note(milliseconds(1000), at(milliseconds(5), milliseconds(7), false));
  starved.note(milliseconds(2000), at(milliseconds(5), milliseconds(7), false));
  EXPECT_EQ(starved.total(), milliseconds(7));
  starved.note(milliseconds(2100), at(milliseconds(5), milliseconds(7), true));
  starved.note(milliseconds(2200), at(milliseconds(5), milliseconds(7), true));
  EXPECT_EQ(starved.total(), milliseconds(107))
      << "from when it was first seen to want a processor";
}

// ---- who is named -------------------------------------------------------------------------------

struct schedule_case {
  const char* name;
  group::schedule gets;
  milliseconds named_after;  // 0: never
};

class a_silent_rank : public ::testing::TestWithParam<schedule_case> {};

TEST_P(a_silent_rank, C06_is_named_by_the_time_in_which_it_could_have_run) {
  const auto& c = GetParam();
  group g(2);
  g.warm_up();
  g.does(0, group::waits_in(train_phase::all_reduce));
  g.does(1, group::hangs_in(train_phase::compute));
  g.gets(1, c.gets);
  const auto found = g.until_found(seconds(60));
  EXPECT_FALSE(found.stuck);
  if (c.named_after.count() == 0) {
    EXPECT_EQ(named(found), "");
    return;
  }
  EXPECT_EQ(named(found), "1");
  EXPECT_GE(g.passed, c.named_after);
  EXPECT_LE(g.passed, c.named_after + c.named_after / 5);
}

INSTANTIATE_TEST_SUITE_P(
    table, a_silent_rank,
    ::testing::Values(schedule_case{"that_spins_on_a_processor_of_its_own", group::processor(1),
                                    milliseconds(500)},
                      schedule_case{"that_sleeps", group::sleep(), milliseconds(500)},
                      schedule_case{"of_which_nothing_is_known", nullptr, milliseconds(500)},
                      schedule_case{"that_spins_on_a_tenth_of_one", group::processor(0.1),
                                    milliseconds(4400)},
                      schedule_case{"that_gets_none", group::no_processor(), milliseconds(0)}),
    [](const auto& of) { return std::string{of.param.name}; });

TEST(progress_watch, C06_a_starved_rank_that_gets_a_processor_and_does_nothing_with_it_is_named) {
  group g(2);
  g.warm_up();
  g.does(0, group::waits_in(train_phase::all_reduce));
  g.does(1, group::hangs_in(train_phase::compute));
  g.gets(1, group::no_processor());
  EXPECT_EQ(named(g.until_found(seconds(3))), "");
  g.gets(1, [begun = false](processor_use& use, group::time passed) mutable {
    if (!begun) use.waited += seconds(3);
    begun = true;
    use.ran += passed;
  });
  const auto found = g.until_found(seconds(3));
  ASSERT_EQ(named(found), "1");
  EXPECT_LE(g.passed, milliseconds(540));
  const auto& why = found.culprits.front().reason;
  EXPECT_NE(why.find("of them without a processor in compute of iteration"), std::string::npos)
      << why;
}

TEST(progress_watch, C06_a_rank_that_is_starved_for_long_is_told_of_ever_more_rarely) {
  group g(2);
  g.warm_up();
  g.does(0, group::waits_in(train_phase::all_reduce));
  g.does(1, group::hangs_in(train_phase::compute));
  g.gets(1, group::no_processor());
  std::vector<std::string> told;
  for (int i = 0; i < 50 * 60; ++i) {
    const auto found = g.tick();
    EXPECT_EQ(named(found), "");
    for (const auto& each : found.starved) told.push_back(each.reason);
  }
  ASSERT_EQ(told.size(), 3U) << "after 10, 20 and 40 seconds of a minute";
  EXPECT_TRUE(told.front().starts_with("has waited for a processor for 10")) << told.front();
}

// Control did not look, and that is excused already.
TEST(progress_watch, C06_what_control_missed_is_not_excused_twice) {
  group g(2);
  g.warm_up();
  g.does(0, group::waits_in(train_phase::all_reduce));
  g.does(1, group::hangs_in(train_phase::compute));
  g.gets(1, group::processor(0));
  for (int i = 0; i < 4; ++i) static_cast<void>(g.tick());
  static_cast<void>(g.tick(seconds(5)));
  g.gets(1, group::sleep());
  EXPECT_EQ(named(g.until_found(seconds(5))), "1");
  EXPECT_LE(g.passed, milliseconds(520));
}

TEST(progress_watch, C06_a_group_that_waits_for_a_starved_rank_keeps_its_communicator) {
  group g(3);
  g.warm_up();
  for (std::uint32_t r = 0; r < 3; ++r) {
    g.does(r, group::waits_in(train_phase::all_reduce));
    g.gets(r, group::sleep());
  }
  // It waits too, by its last word, and cannot find out that what it waits for has come.
  g.does(1, group::hangs_in(train_phase::all_reduce));
  g.gets(1, group::no_processor());
  const auto found = g.until_found(seconds(20));
  EXPECT_EQ(named(found), "");
  EXPECT_FALSE(found.stuck) << *found.stuck;
}

}  // namespace
}  // namespace ftrt::recovery
