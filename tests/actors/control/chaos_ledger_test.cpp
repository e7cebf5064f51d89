#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <actors/control/chaos_ledger.hpp>

namespace ftrt::actors {
namespace {

event chaos_event(const std::string& subject, std::uint64_t iteration, std::int64_t rank = -1) {
  event made;
  made.what = event::kind::chaos;
  made.subject = subject;
  made.iteration = iteration;
  made.rank = rank;
  return made;
}

TEST(chaos_ledger, tells_what_each_entry_did_and_who_obeyed) {
  const auto histories = read_history(
      {chaos_event("chaos[0]", 300), chaos_event("trainer:1", 300, 1), chaos_event("chaos[2]", 40),
       chaos_event("chaos[2]", 40, 1), chaos_event("chaos[2]", 80), chaos_event("chaos[2]", 80, 1),
       chaos_event("chaos[2]", 80, 0)},
      3);
  ASSERT_EQ(histories.size(), 3U);
  ASSERT_EQ(histories[0].firings.size(), 1U);
  EXPECT_EQ(histories[0].firings[0].iteration, iteration_id{300});
  EXPECT_TRUE(histories[1].firings.empty());
  ASSERT_EQ(histories[2].firings.size(), 2U);
  EXPECT_THAT(histories[2].firings[0].done, testing::UnorderedElementsAre(0, 1));
  EXPECT_THAT(histories[2].firings[1].done, testing::UnorderedElementsAre(1));
}

TEST(chaos_ledger, passes_over_what_is_no_entry_of_the_scenario) {
  auto warning = chaos_event("chaos[0]", 5);
  warning.what = event::kind::warning;
  const auto histories = read_history(
      {warning, chaos_event("chaos[7]", 1), chaos_event("chaos[]", 1), chaos_event("chaos[0", 1),
       chaos_event("chaos[-1]", 1), chaos_event("chaos[99999999999999999999999]", 1),
       chaos_event("chaos[0]", 3, 1)},
      1);
  EXPECT_TRUE(histories.at(0).firings.empty());
}

TEST(chaos_ledger, knows_the_newest_iteration_that_was_reached) {
  scenario values;
  values.chaos.resize(2);
  values.chaos[0].kind = chaos_kind::nan;
  values.chaos[1].kind = chaos_kind::kill_supervisor;
  event committed;
  committed.what = event::kind::checkpoint_committed;
  committed.subject = "checkpoint:100";
  committed.iteration = 100;
  const auto ordered_ahead = chaos_event("chaos[0]", 400);
  EXPECT_EQ(newest_iteration({committed, ordered_ahead}, values), iteration_id{100});
  EXPECT_EQ(newest_iteration({committed, ordered_ahead, chaos_event("chaos[1]", 250)}, values),
            iteration_id{250});
}

}  // namespace
}  // namespace ftrt::actors
