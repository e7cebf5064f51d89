#include <gtest/gtest.h>

#include <actors/recovery/progress_watch.hpp>
#include <random>

#include "tests/actors/recovery/watched_group.hpp"

namespace ftrt::recovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using storage::train_phase;
using group = watched_group;

// ---- who is named -------------------------------------------------------------------------------

struct blame_case {
  const char* name;
  std::vector<group::behaviour> does;  // of each rank, from one moment on
  std::string named;
};

class who_is_named : public ::testing::TestWithParam<blame_case> {};

TEST_P(who_is_named, C07_is_who_did_not_arrive_and_not_who_waits) {
  const auto& c = GetParam();
  group g(static_cast<std::uint32_t>(c.does.size()));
  g.warm_up();
  for (std::uint32_t r = 0; r < c.does.size(); ++r) g.does(r, c.does[r]);
  const auto found = g.until_found(seconds(3));
  EXPECT_EQ(named(found), c.named);
  EXPECT_FALSE(found.stuck);
  if (c.named.empty()) return;
  EXPECT_LE(g.passed, milliseconds(600)) << "floor 500 ms, and some ticks";
}

const auto in = &group::hangs_in;
const auto waits = &group::waits_in;

INSTANTIATE_TEST_SUITE_P(
    table, who_is_named,
    ::testing::Values(
        blame_case{
            "one_in_compute", {in(train_phase::compute), waits(train_phase::all_reduce)}, "0"},
        blame_case{
            "the_other_in_compute", {waits(train_phase::decision), in(train_phase::compute)}, "1"},
        blame_case{"one_that_was_stopped_while_it_waited",
                   {waits(train_phase::all_reduce), in(train_phase::all_reduce)},
                   "1"},
        blame_case{
            "one_that_applies", {in(train_phase::applying), waits(train_phase::all_reduce)}, "0"},
        blame_case{
            "two_of_three",
            {in(train_phase::compute), waits(train_phase::all_reduce), in(train_phase::decision)},
            "0,2"},
        blame_case{"one_before_it_began_to_train",
                   {waits(train_phase::all_reduce), in(train_phase::joining)},
                   "1"},
        blame_case{"nobody_while_one_is_still_at_work",
                   {waits(train_phase::all_reduce),
                    group::works_in(train_phase::compute, milliseconds(300))},
                   ""}),
    [](const auto& of) { return std::string{of.param.name}; });

TEST(progress_watch, C06_all_at_once_are_named_too_but_get_longer_for_it) {
  group g(2);
  g.does(0, waits(train_phase::all_reduce));  // so that waits are told
  static_cast<void>(g.tick());
  g.does(0, group::trains(milliseconds(5)));
  g.warm_up();
  g.all_do(in(train_phase::compute));
  const auto found = g.until_found(seconds(10));
  EXPECT_EQ(named(found), "0,1");
  EXPECT_FALSE(found.stuck);
  EXPECT_GE(g.passed, seconds(2));
  EXPECT_LE(g.passed, milliseconds(2100));
}

TEST(progress_watch, C06_what_holds_all_up_for_a_second_restarts_nobody) {
  group g(3);
  g.warm_up();
  g.all_do(in(train_phase::compute));
  EXPECT_EQ(named(g.until_found(seconds(1))), "");
  g.all_do(group::trains(milliseconds(5)));
  EXPECT_EQ(named(g.until_found(seconds(20))), "");
}

TEST(progress_watch, C07_without_word_of_waits_those_in_a_collective_are_spared) {
  group g(3);
  g.warm_up();
  g.does(0, in(train_phase::all_reduce));
  g.does(1, in(train_phase::compute));
  g.does(2, in(train_phase::decision));
  EXPECT_EQ(named(g.until_found(seconds(3))), "1");
}

TEST(progress_watch, C07_without_word_of_waits_who_has_come_less_far_is_named) {
  group g(3);
  g.warm_up();
  g.all_do(in(train_phase::all_reduce));
  static_cast<void>(g.tick());
  g.seen[0].page.collective_sequence += 2;
  g.seen[1].page.collective_sequence += 1;
  g.seen[2].page.collective_sequence += 2;
  EXPECT_EQ(named(g.until_found(seconds(3))), "1");
}

TEST(progress_watch, the_reason_says_what_was_seen_and_what_the_limit_was) {
  group g(2);
  g.warm_up();
  g.does(0, in(train_phase::compute));
  g.does(1, waits(train_phase::all_reduce));
  const auto found = g.until_found(seconds(2));
  ASSERT_EQ(found.culprits.size(), 1u);
  const auto iteration = std::to_string(g.seen[0].page.iteration.value());
  EXPECT_EQ(found.culprits[0].reason,
            "made no progress for 520 ms in compute of iteration " + iteration + " (limit 500 ms)");
}

// ---- control itself is late ---------------------------------------------------------------------

TEST(progress_watch, C06_a_machine_that_stood_still_as_a_whole_restarts_nobody) {
  for (const group::time pause : {group::time{seconds(2)}, group::time{std::chrono::hours{8}}}) {
    group g(2);
    g.warm_up();
    auto asleep = [](storage::progress_view&, group::time) {};
    g.all_do(asleep);
    EXPECT_EQ(named(g.tick(pause)), "");  // nobody has run since
    for (int i = 0; i < 5; ++i) EXPECT_EQ(named(g.tick()), "");
    g.all_do(group::trains(milliseconds(5)));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(named(g.tick()), "");
  }
}

TEST(progress_watch, C06_what_a_page_says_the_time_is_counts_for_nothing) {
  group g(2);
  g.warm_up();
  g.does(0, [](storage::progress_view& page, group::time now) {
    page.progress_ns = -now.count();  // its clock is mad, but it moves
  });
  EXPECT_EQ(named(g.until_found(seconds(5))), "");
  g.does(0, [](storage::progress_view& page, group::time) {
    page.progress_ns = std::numeric_limits<std::int64_t>::max();
  });
  g.does(1, waits(train_phase::all_reduce));
  EXPECT_EQ(named(g.until_found(seconds(5))), "0");
}

TEST(progress_watch, C06_a_group_that_is_starved_of_the_processor_is_left_alone) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random{seed};
  group g(4);
  // Each rank gets on at random, up to 400 ms apart; control is up to 300 ms late.
  for (std::uint32_t r = 0; r < 4; ++r)
    g.does(r,
           [&random, next = group::time{}](storage::progress_view& page, group::time now) mutable {
             if (now < next) return;
             next = now + milliseconds(random() % 400);
             page.committed = page.iteration;
             page.iteration = page.iteration.next();
             page.phase = train_phase::compute;
             page.progress_ns = now.count();
           });
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(named(g.tick(milliseconds(random() % 300))), "") << "seed " << seed;
}

// ---- nobody to blame ----------------------------------------------------------------------------

TEST(progress_watch, C06_where_all_wait_the_communicator_is_made_anew_then_one_dies_then_all) {
  group g(3);
  g.warm_up();
  g.does(0, waits(train_phase::decision));
  g.does(1, waits(train_phase::all_reduce));
  g.does(2, waits(train_phase::all_reduce));
  auto found = g.until_found(seconds(5));
  EXPECT_TRUE(found.stuck);
  EXPECT_EQ(named(found), "");
  g.seen[1].page.progress_ns += 1;  // rejoined; the others a moment later
  static_cast<void>(g.tick());
  g.seen[0].page.progress_ns += 1;
  g.seen[2].page.progress_ns += 1;
  found = g.until_found(seconds(5));
  EXPECT_FALSE(found.stuck);
  EXPECT_EQ(named(found), "1") << "the one without progress for longest";
  found = g.until_found(seconds(5));
  EXPECT_EQ(named(found), "0,1,2");
}

TEST(progress_watch, a_commit_between_two_such_hangs_makes_the_second_a_first) {
  group g(2);
  for (int i = 0; i < 2; ++i) {
    g.all_do(group::trains(milliseconds(5)));
    g.warm_up();
    g.all_do(waits(train_phase::decision));
    EXPECT_TRUE(g.until_found(seconds(5)).stuck);
  }
}

// ---- who is not watched -------------------------------------------------------------------------

TEST(progress_watch, who_has_finished_is_no_hang_and_the_one_left_behind_is) {
  group g(2);
  g.warm_up();
  g.does(0, in(train_phase::finished));
  g.group.ranks[0].stands = standing::finished;
  g.does(1, group::works_in(train_phase::snapshot, milliseconds(100)));
  EXPECT_EQ(named(g.until_found(seconds(100))), "");
  g.does(1, in(train_phase::snapshot));
  EXPECT_EQ(named(g.until_found(seconds(100))), "1");
}

// It was stopped while it digested its weights, say: its page alone is not its word.
TEST(progress_watch, one_that_ends_its_work_and_never_says_so_is_named_in_the_end) {
  group g(2);
  g.warm_up();
  g.group.ranks[0].stands = standing::finished;
  g.all_do(in(train_phase::finished));
  EXPECT_EQ(named(g.until_found(seconds(59))), "") << "the digest may take its time";
  EXPECT_EQ(named(g.until_found(seconds(2))), "1");
}

TEST(progress_watch, rests_while_membership_changes_or_a_failed_program_waits_for_its_verdict) {
  const std::vector<std::function<void(group&)>> reasons{
      [](group& g) { g.group.at = phase::gathering; },
      [](group& g) { g.group.at = phase::finishing; },
      [](group& g) { g.group.ranks[1].stands = standing::doomed; },
      [](group& g) { g.group.ranks[1].program_error = "bad shape"; },
      [](group& g) { g.seen[1].alive = false; },
  };
  for (const auto& reason : reasons) {
    group g(2);
    g.warm_up();
    reason(g);
    g.all_do(in(train_phase::compute));
    EXPECT_EQ(named(g.until_found(seconds(100))), "");
  }
}

TEST(progress_watch, can_be_switched_off) {
  watch_limits limits;
  limits.enabled = false;
  group g(2, limits);
  g.warm_up();
  g.all_do(in(train_phase::compute));
  EXPECT_EQ(named(g.until_found(minutes(10))), "");
}

TEST(progress_watch, C06_a_rank_that_hangs_on_its_way_into_a_generation_is_named) {
  group g(3);
  g.group.at = phase::joining;
  for (auto& m : g.group.ranks) m.stands = standing::joining;
  g.does(0, waits(train_phase::joining));
  g.does(1, in(train_phase::parked));
  g.seen[1].page.generation = generation_id{2};
  g.does(2, waits(train_phase::joining));
  const auto found = g.until_found(seconds(60));
  EXPECT_EQ(named(found), "1");
  EXPECT_GE(g.passed, seconds(10));
  ASSERT_EQ(found.culprits.size(), 1u);
  EXPECT_NE(found.culprits[0].reason.find("before it joined generation 3 (limit 10000 ms)"),
            std::string::npos)
      << found.culprits[0].reason;
}

TEST(progress_watch, a_rank_that_loads_a_checkpoint_may_take_longer_than_one_that_joins) {
  group g(2);
  g.group.at = phase::joining;
  for (auto& m : g.group.ranks) {
    m.stands = standing::joining;
    m.role = protocol::state_role::load_checkpoint;
  }
  g.does(0, waits(train_phase::joining));
  g.does(1, in(train_phase::joining));
  EXPECT_EQ(named(g.until_found(minutes(5))), "1");
  EXPECT_GE(g.passed, minutes(1));
}

}  // namespace
}  // namespace ftrt::recovery
