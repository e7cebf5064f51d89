#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;

namespace {

policy limits(bool skip) {
  auto p = stage::limits(2);
  p.max_failures_without_progress = 10;
  p.poison_limit = 3;
  p.skip_poisoned = skip;
  return p;
}

worker_lost crash(const stage& s, rank_id rank, std::uint64_t committed,
                  const std::string& cause = "killed by signal 6 (SIGABRT)") {
  worker_lost e;
  e.rank = rank;
  e.incarnation = s.newest(rank);
  e.cause = cause;
  e.stderr_tail = "last words";
  e.committed = iteration_id{committed};
  e.in_window = true;
  e.micro_batch = 2;
  return e;
}

// Rank 1 is back, from rank 0, and all train again at `committed`.
void come_back(stage& s, std::uint64_t committed) {
  s.park(r0, committed);
  s.all_hello();
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
}

// Rank 1 dies `times` times in a row in the iteration after `committed`; the last one is not
// recovered from.
void die(stage& s, std::uint64_t committed, int times) {
  for (int i = 1; i <= times; ++i) {
    s.feed(crash(s, r1, committed));
    if (i < times) come_back(s, committed);
  }
}

}  // namespace

TEST(recovery_poison, the_third_death_in_one_iteration_ends_the_run_with_what_reproduces_it) {
  stage s(limits(false));
  s.start(7);
  die(s, 7, 3);
  const auto report = s.one<report_poison>();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->rank, r1);
  EXPECT_EQ(report->iteration, iteration_id{8});
  EXPECT_EQ(report->times, 3u);
  EXPECT_EQ(report->micro_batch, 2u);
  EXPECT_EQ(report->stderr_tail, "last words");
  EXPECT_FALSE(report->skipped);
  const auto end = s.one<end_run>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, run_outcome::failed);
  EXPECT_EQ(
      end->error,
      "poisoned batch: rank 1 was lost 3 times in a row in iteration 8, each time: killed by "
      "signal 6 (SIGABRT); what it takes to reproduce it is under poisoned/ in the run's folder; "
      "its standard error ends: last words");
}

TEST(recovery_poison, it_is_left_out_by_all_ranks_where_the_scenario_allows_it) {
  stage s(limits(true));
  s.start(7);
  die(s, 7, 3);
  EXPECT_TRUE(s.one<report_poison>()->skipped);
  ASSERT_EQ(s.now().at, phase::gathering);
  s.park(r0, 7);
  s.all_hello();
  const auto join = s.one<join_generation>();
  ASSERT_TRUE(join);
  for (const auto& each : join->by_rank) EXPECT_EQ(each.left_out, std::vector{iteration_id{8}});
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.all<record_recovery>().size(), 3u);
}

TEST(recovery_poison, what_is_left_out_stays_so_after_a_rollback_and_a_take_over) {
  stage s(limits(true));
  s.start(7);
  die(s, 7, 3);
  come_back(s, 7);
  s.commit(20);
  s.lose(r0, 20);
  s.lose(r1, 20);
  s.all_hello();
  s.checkpoint(5);
  EXPECT_EQ(s.one<join_generation>()->by_rank[0].left_out, std::vector{iteration_id{8}});
  s.all_join();
  s.commit(9);
  s.lose(r1, 9);
  s.park(r0, 9);
  s.all_hello();
  EXPECT_TRUE(s.one<join_generation>()->by_rank[0].left_out.empty()) << "it is behind them";

  stage next(limits(true));
  next.feed(take_over{generation_id{3},
                      branch_id{1},
                      {incarnation_id{1}, incarnation_id{1}},
                      iteration_id{7},
                      {},
                      {},
                      {},
                      {iteration_id{8}, iteration_id{30}}});
  next.lose(r0, 7);
  next.lose(r1, 7);
  next.all_hello();
  next.no_checkpoint();
  EXPECT_EQ(next.one<join_generation>()->by_rank[1].left_out,
            (std::vector{iteration_id{8}, iteration_id{30}}));
}

TEST(recovery_poison, a_commit_another_cause_or_another_iteration_in_between_forgives) {
  stage s(limits(false));
  s.start(7);
  die(s, 7, 2);
  come_back(s, 7);
  s.commit(8);
  s.feed(crash(s, r1, 8));
  come_back(s, 8);
  s.feed(crash(s, r1, 8, "killed by signal 11 (SIGSEGV)"));
  come_back(s, 8);
  die(s, 8, 2);
  EXPECT_FALSE(s.one<report_poison>());
  come_back(s, 8);
  s.feed(crash(s, r1, 8));
  EXPECT_TRUE(s.one<report_poison>()) << "the third of one cause in a row";
}

TEST(recovery_poison, one_crash_in_a_thousand_good_iterations_goes_on_for_ever) {
  auto p = limits(false);
  p.max_restarts = 5;
  p.total_iterations = 0;
  stage s(p);
  s.start(1);
  for (std::uint64_t k = 1000; k < 50'000; k += 1000) {
    s.commit(k);
    s.pass(seconds(200));  // five within its window of ten minutes would be too many
    s.feed(crash(s, r1, k));
    ASSERT_EQ(s.one<spawn_worker>()->delay.count(), 0) << "each is a first failure";
    come_back(s, k);
    s.commit(k + 1);
  }
  EXPECT_EQ(s.now().at, phase::training);
}

TEST(recovery_poison, hangs_count_by_their_kind_whatever_their_figures) {
  stage s(limits(false));
  s.start(7);
  for (const std::string ms : {"512", "733", "999"}) {
    s.feed(crash(s, r1, 7, "made no progress for " + ms + " ms in compute (limit 500 ms)"));
    if (ms != "999") come_back(s, 7);
  }
  EXPECT_TRUE(s.one<report_poison>());
}

TEST(recovery_poison, it_does_not_matter_who_noticed_a_death_or_whether_a_kill_overtook_it) {
  stage s(limits(false));
  s.start(7);
  s.feed(crash(s, r1, 7, "closed its control socket: killed by signal 9 (SIGKILL)"));
  come_back(s, 7);
  s.feed(crash(s, r1, 7, "closed its control socket: killed by signal 6 (SIGABRT)"));
  come_back(s, 7);
  s.feed(peers_reported_lost{s.generation(), {r1}});
  s.feed(crash(s, r1, 7, "killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(s.one<report_poison>());
}

TEST(recovery_poison, faults_that_were_asked_for_and_deaths_outside_of_a_window_do_not_count) {
  stage s(limits(false));
  s.start(7);
  for (int i = 0; i < 4; ++i) {
    auto e = crash(s, r1, 7);
    (i % 2 == 0 ? e.injected : e.in_window) = i % 2 == 0;
    s.feed(e);
    EXPECT_FALSE(s.one<report_poison>());
    come_back(s, 7);
  }
}

TEST(recovery_poison, a_damaged_page_blames_no_window) {
  stage s(limits(true));
  s.start(7);
  for (int i = 0; i < 4; ++i) {
    s.feed(crash(s, r1, 900));
    EXPECT_FALSE(s.one<report_poison>());
    come_back(s, 7);
  }
}

TEST(recovery_poison, more_than_three_windows_in_a_row_are_no_bad_batch) {
  stage s(limits(true));
  s.start(7);
  for (std::uint64_t k = 7; k < 10; ++k) {
    die(s, k, 3);
    ASSERT_TRUE(s.one<report_poison>()->skipped);
    come_back(s, k);
    s.commit(k + 1);
  }
  die(s, 10, 3);
  EXPECT_FALSE(s.one<report_poison>()->skipped);
  EXPECT_NE(s.one<end_run>()->error.find("3 before it were left out already"), std::string::npos);
}

TEST(recovery_poison, that_is_not_looked_for_leaves_it_to_the_budget) {
  auto p = limits(false);
  p.poison_limit = 0;
  p.max_failures_without_progress = 4;
  stage s(p);
  s.start(7);
  die(s, 7, 5);
  EXPECT_FALSE(s.one<report_poison>());
  EXPECT_NE(s.one<end_run>()->error.find("budget"), std::string::npos);
}

TEST(recovery_poison, that_kills_all_ranks_is_left_out_once) {
  stage s(limits(true));
  s.start(7);
  for (int i = 1; i <= 3; ++i) {
    s.feed(crash(s, r0, 7));
    s.feed(crash(s, r1, 7));
    s.all_hello();
    s.checkpoint(5);
    s.all_join();
    s.commit(7);
  }
  EXPECT_EQ(s.now().left_out, std::vector{iteration_id{8}});
  EXPECT_TRUE(s.now().suspects.empty());
}

TEST(recovery_poison, a_kill_that_has_another_reason_blames_no_window) {
  stage s(limits(true));
  s.start(7);
  for (int i = 0; i < 4; ++i) {
    s.feed(peers_reported_lost{s.generation(), {}});
    s.feed(deadline_passed{s.now().ranks[1].wait.token});  // too late in parking
    s.feed(crash(s, r1, 7, "killed by signal 9 (SIGKILL)"));
    EXPECT_FALSE(s.one<report_poison>());
    come_back(s, 7);
  }
}

TEST(recovery_poison, what_one_rank_throws_again_and_again_counts) {
  stage s(limits(false));
  s.start(7);
  for (int i = 1; i <= 3; ++i) {
    s.fail_program(r1, "bad batch");
    s.feed(deadline_passed{s.now().verdict_wait.token});
    s.feed(crash(s, r1, 7, "killed by signal 9 (SIGKILL)"));
    if (i < 3) come_back(s, 7);
  }
  ASSERT_TRUE(s.one<report_poison>());
  EXPECT_NE(s.one<report_poison>()->cause.find("bad batch"), std::string::npos);
}

// ---- no replacement ----------------------------------------------------------------------------

namespace {

void fail_to_start(stage& s, rank_id rank) {
  s.feed(worker_start_failed{rank, s.newest(rank), "fork: no memory"});
}

}  // namespace

TEST(recovery_replacement, that_cannot_be_started_ends_the_run_once_the_budget_is_used_up) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 7);
  for (int i = 0; i < 3 && s.now().at != phase::ended; ++i) fail_to_start(s, r1);
  ASSERT_EQ(s.now().at, phase::ended);
  EXPECT_NE(s.one<end_run>()->error.find("no memory"), std::string::npos);
}

TEST(recovery_replacement, is_waited_for_within_no_budget_where_the_scenario_says_so) {
  auto p = stage::limits(2);
  p.wait_for_replacement = true;
  stage s(p);
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 7);
  std::chrono::nanoseconds longest{0};
  for (int i = 0; i < 1000; ++i) {
    fail_to_start(s, r1);
    ASSERT_EQ(s.spawned(), std::vector{r1});
    const auto delay = s.one<spawn_worker>()->delay;
    EXPECT_GE(delay, milliseconds(50));
    EXPECT_LE(delay, seconds(1)) << "backoff_max";
    longest = std::max(longest, delay);
  }
  EXPECT_GE(longest, milliseconds(500));
  s.hello(r1);
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.now().at, phase::training);
  EXPECT_EQ(s.all<record_recovery>().size(), 1u) << "one loss, however often nothing came of it";
  s.lose(r1, 8);
  EXPECT_EQ(s.one<spawn_worker>()->delay.count(), 0) << "a worker that lived is no false start";
}

TEST(recovery_replacement, that_does_not_say_hello_in_time_is_waited_for_as_well) {
  auto p = stage::limits(2);
  p.wait_for_replacement = true;
  stage s(p);
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 7);
  for (int i = 0; i < 100; ++i) {
    s.feed(deadline_passed{s.now().ranks[1].wait.token});
    s.lose(r1);
    ASSERT_EQ(s.spawned(), std::vector{r1});
  }
}

TEST(recovery_replacement, that_is_waited_for_does_not_outlast_a_stop) {
  auto p = stage::limits(2);
  p.wait_for_replacement = true;
  stage s(p);
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 7);
  fail_to_start(s, r1);
  s.feed(stop_requested{"test"});
  s.feed(deadline_passed{s.now().stop_wait.token});
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::stopped);
}
