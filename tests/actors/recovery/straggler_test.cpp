#include <functional>
#include <tests/actors/recovery/stage.hpp>

// When a rank that works, and slowly, is replaced, and when it is not.
using namespace ftrt;
using namespace ftrt::recovery;

namespace {

bool is_replaced(const stage& s, rank_id r) {
  return s.now().ranks.at(r.value()).stands == standing::doomed;
}

TEST(recovery_straggler, a_straggler_is_killed_and_goes_the_way_of_a_lost_rank) {
  stage s(3);
  s.start(7);
  s.slow(r1);
  const auto kill = s.one<kill_worker>();
  ASSERT_TRUE(kill.has_value());
  EXPECT_EQ(kill->rank, r1);
  EXPECT_EQ(kill->cause, "straggler: computes for 90 ms an iteration");
  const auto told = s.one<announce>();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->kind, event::kind::straggler);
  EXPECT_EQ(told->rank, r1);
  s.lose(r1, 7);
  EXPECT_EQ(s.spawned(), std::vector{r1});
  s.park(r0, 7);
  s.park(r2, 7);
  s.hello(r1);
  EXPECT_EQ(s.roles(), (std::vector{protocol::state_role::keep, protocol::state_role::receive,
                                    protocol::state_role::keep}));
  s.all_join();
  s.commit(8);
  const auto made_good = s.one<record_recovery>();
  ASSERT_TRUE(made_good.has_value());
  EXPECT_EQ(made_good->cause,
            "straggler: computes for 90 ms an iteration (killed by signal 9 (SIGKILL))");
  EXPECT_EQ(made_good->source, "survivor:0");
  EXPECT_EQ(made_good->lost_iterations, 0U);
  EXPECT_EQ(s.generation(), generation_id{2});
}

TEST(recovery_straggler, one_at_a_time_and_only_once_the_last_is_made_good) {
  stage s(3);
  s.start(7);
  s.slow(r1);
  s.slow(r2);
  EXPECT_TRUE(s.killed().empty());
  s.slow(r1);
  EXPECT_TRUE(s.killed().empty()) << "it is dying already";
  s.lose(r1, 7);
  s.slow(r2);
  EXPECT_TRUE(s.killed().empty());
  s.park(r0, 7);
  s.park(r2, 7);
  s.hello(r1);
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
  s.slow(r2);
  EXPECT_TRUE(s.killed().empty()) << "nothing was committed since";
  s.commit(8);
  s.slow(r2);
  EXPECT_EQ(s.killed(), std::vector{r2});
}

struct refusal {
  const char* why;
  std::function<void(stage&)> before;
  std::function<void(stage&)> say = [](stage& s) { s.slow(r1); };
  std::function<policy()> limits = [] { return stage::limits(2); };
};

class a_straggler_stays : public ::testing::TestWithParam<refusal> {};

TEST_P(a_straggler_stays, and_the_reason_is_given) {
  stage s(GetParam().limits());
  s.start(7);
  GetParam().before(s);
  const auto before = s.now();
  GetParam().say(s);
  EXPECT_TRUE(s.killed().empty());
  EXPECT_NE(s.reason().find(GetParam().why), std::string::npos) << s.reason();
  state after = s.now();
  after.fenced = before.fenced;
  EXPECT_TRUE(after == before) << describe(after);
}

INSTANTIATE_TEST_SUITE_P(
    each, a_straggler_stays,
    ::testing::Values(
        refusal{"only reported", [](stage&) {}, [](stage& s) { s.slow(r1); },
                [] {
                  policy p = stage::limits(2);
                  p.replace_stragglers = false;
                  return p;
                }},
        refusal{"no others", [](stage&) {}, [](stage& s) { s.slow(r0); },
                [] { return stage::limits(1); }},
        refusal{"not all ranks are within an iteration", [](stage&) {},
                [](stage& s) { s.slow(r1, false, true); }},
        refusal{"no process is ready", [](stage&) {}, [](stage& s) { s.slow(r1, true, false); }},
        refusal{"the run is to stop", [](stage& s) { s.feed(stop_requested{"test"}); }},
        refusal{"leave this iteration", [](stage& s) { s.not_finite(r0, 8); }},
        refusal{"not all ranks train", [](stage& s) { s.finish(r0, 1000); }},
        refusal{"not all ranks train", [](stage& s) { s.lose(r0, 7); }},
        refusal{"stale", [](stage&) {},
                [](stage& s) {
                  s.feed(straggler_found{generation_id{7}, r1, s.newest(r1), "slow", true, true});
                }},
        refusal{
            "stale", [](stage&) {},
            [](stage& s) {
              s.feed(straggler_found{s.generation(), r1, incarnation_id{9}, "slow", true, true});
            }},
        refusal{"stale", [](stage&) {},
                [](stage& s) {
                  s.feed(straggler_found{s.generation(), rank_id{77777}, incarnation_id{1}, "slow",
                                         true, true});
                }}));

// What was redone is not yet progress: the last attempts are for failures.
TEST(recovery_straggler, nobody_is_replaced_before_the_run_is_past_its_last_failure) {
  stage s(2);
  s.start(7);
  s.lose(r0, 7);
  s.lose(r1, 7);
  s.all_hello();
  s.checkpoint(2);
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
  s.commit(5);
  s.slow(r1);
  EXPECT_TRUE(s.killed().empty());
  s.commit(8);
  s.slow(r1);
  EXPECT_EQ(s.killed(), std::vector{r1});
}

void replace_slow(stage& s, std::uint64_t at) {
  s.slow(r1);
  ASSERT_TRUE(is_replaced(s, r1)) << s.reason();
  s.lose(r1, at);
  s.park(r0, at);
  s.hello(r1);
  s.all_join();
  s.commit(at + 1);
}

TEST(recovery_straggler, half_of_the_restarts_are_left_for_failures_and_that_is_told_once) {
  policy p = stage::limits(2);
  p.max_restarts = 5;
  p.window = seconds(600);
  stage s(p);
  s.start(7);
  replace_slow(s, 7);
  replace_slow(s, 8);
  s.slow(r1);
  EXPECT_FALSE(is_replaced(s, r1));
  const auto told = s.one<announce>();
  ASSERT_TRUE(told.has_value());
  EXPECT_NE(told->text.find("supervision.max_restarts = 5"), std::string::npos) << told->text;
  s.slow(r1);
  EXPECT_FALSE(s.one<announce>().has_value());
  s.pass(seconds(601));
  s.slow(r1);
  EXPECT_TRUE(is_replaced(s, r1)) << "old restarts count no more: " << s.reason();
}

// Where one failure in a row is all that may be, the one that nobody chose still has it.
TEST(recovery_straggler, its_loss_takes_no_attempt_away_from_a_failure_before_the_next_commit) {
  policy p = stage::limits(2);
  p.max_failures_without_progress = 1;
  stage s(p);
  s.start(7);
  s.slow(r1);
  ASSERT_TRUE(is_replaced(s, r1)) << s.reason();
  s.lose(r1, 7);
  EXPECT_EQ(s.now().barren, 0U);
  EXPECT_EQ(s.now().ranks[1].attempts, 0U);
  EXPECT_EQ(s.now().restarts.size(), 1U) << "of those there are enough";
  s.park(r0, 7);
  s.hello(r1);
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
  s.lose(r1, 7);
  ASSERT_NE(s.now().at, phase::ended) << s.reason();
  EXPECT_EQ(s.now().ranks[1].attempts, 1U);
  s.park(r0, 7);
  s.hello(r1);
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
  s.lose(r1, 7);
  EXPECT_EQ(s.now().at, phase::ended) << "two failures in a row are one too many";
}

TEST(recovery_straggler, peers_that_see_it_die_and_cannot_name_it_make_no_failure_of_it) {
  policy p = stage::limits(3);
  p.max_failures_without_progress = 1;
  stage s(p);
  s.start(7);
  s.slow(r1);
  s.feed(peers_reported_lost{s.generation(), {}});
  EXPECT_EQ(s.now().barren, 0U);
  EXPECT_EQ(s.now().at, phase::gathering) << s.reason();
  s.lose(r1, 7);
  EXPECT_EQ(s.now().ranks[1].attempts, 0U);
  EXPECT_EQ(s.now().restarts.size(), 1U);
}

// One such death in an iteration is the fault of its batch, here.
TEST(recovery_straggler, a_replaced_straggler_is_no_poisoned_batch) {
  policy p = stage::limits(2);
  p.poison_limit = 1;
  stage s(p);
  s.start(7);
  s.slow(r1);
  worker_lost lost{r1, s.newest(r1), "killed by signal 9 (SIGKILL)", "", iteration_id{7}};
  lost.in_window = true;
  s.feed(lost);
  EXPECT_EQ(s.now().at, phase::gathering) << s.reason();
  EXPECT_TRUE(s.now().suspects.empty());
}

}  // namespace
