#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;

TEST(recovery_loss, a_lost_rank_receives_from_the_survivor_and_training_goes_on) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  ASSERT_TRUE(s.one<revoke_generation>());
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
  EXPECT_EQ(s.spawned(), (std::vector{r1})) << "in parallel with parking";
  EXPECT_EQ(s.one<spawn_worker>()->delay.count(), 0);
  s.hello(r1);
  s.park(r0, 7);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
  const auto join = s.one<join_generation>();
  EXPECT_EQ(join->generation, generation_id{2});
  EXPECT_EQ(join->by_rank[1].source, r0);
  EXPECT_EQ(join->by_rank[1].iteration, iteration_id{7});
  EXPECT_FALSE(s.one<record_generation>()->rollback_to);
  s.all_join();
  EXPECT_TRUE(s.one<start_training>());
  s.commit(8);
  const auto record = s.one<record_recovery>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->rank, r1);
  EXPECT_EQ(record->source, "survivor:0");
  EXPECT_EQ(record->lost_iterations, 0u);
  EXPECT_DOUBLE_EQ(record->detected_ms, 6);
  EXPECT_GT(record->resumed_ms, record->detected_ms);
  s.commit(9);
  EXPECT_FALSE(s.one<record_recovery>()) << "once";
}

TEST(recovery_loss, ends_with_the_first_commit_and_not_when_that_was_seen) {
  for (const bool told : {true, false}) {
    stage s(2);
    s.start(7);
    s.lose(r1, 7);
    const auto fault_at = s.time() - milliseconds(6);
    s.hello(r1);
    s.park(r0, 7);
    s.all_join();
    const auto trains_at = s.time();
    s.pass(milliseconds(90));
    const auto committed_at = trains_at + milliseconds(20);
    s.feed(progressed{generation_id{2}, iteration_id{11},
                      told ? std::optional{committed_at} : std::nullopt});
    const auto record = s.one<record_recovery>();
    ASSERT_TRUE(record);
    const std::chrono::duration<double, std::milli> took =
        (told ? committed_at : s.time()) - fault_at;
    EXPECT_DOUBLE_EQ(record->resumed_ms, took.count());
  }
}

TEST(recovery_loss, does_not_believe_a_commit_before_the_generation_or_in_the_future) {
  for (const bool early : {true, false}) {
    stage s(2);
    s.start(7);
    s.lose(r1, 7);
    const auto fault_at = s.time() - milliseconds(6);
    s.hello(r1);
    s.park(r0, 7);
    s.all_join();
    const auto trains_at = s.time();
    s.pass(milliseconds(30));
    s.feed(progressed{generation_id{2}, iteration_id{8}, s.time() * (early ? 0 : 2)});
    const std::chrono::duration<double, std::milli> took =
        (early ? trains_at : s.time()) - fault_at;
    EXPECT_DOUBLE_EQ(s.one<record_recovery>()->resumed_ms, took.count());
  }
}

TEST(recovery_loss, several_ranks_lost_at_once_come_back_together) {
  stage s(3);
  s.start(7);
  s.lose(r1, 7);
  s.lose(r2, 7);
  EXPECT_FALSE(s.one<revoke_generation>()) << "it is revoked already";
  s.park(r0, 7);
  s.all_hello();
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive, state_role::receive}));
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.all<record_recovery>().size(), 2u);
}

TEST(recovery_loss, all_ranks_lost_at_once_roll_back_to_the_checkpoint_on_a_new_branch) {
  stage s(2);
  s.start(430);
  s.lose(r0, 431);
  s.lose(r1, 430);
  s.all_hello();
  s.checkpoint(400);
  const auto record = s.one<record_generation>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->rollback_to, iteration_id{400});
  EXPECT_EQ(record->branch, branch_id{2});
  EXPECT_EQ(s.roles(), (std::vector{state_role::load_checkpoint, state_role::load_checkpoint}));
  s.all_join();
  s.commit(401);
  ASSERT_EQ(s.all<record_recovery>().size(), 2u);
  EXPECT_EQ(s.all<record_recovery>()[0].source, "checkpoint:400");
  EXPECT_EQ(s.all<record_recovery>()[0].lost_iterations, 31u);
}

TEST(recovery_loss, all_ranks_lost_without_a_checkpoint_start_from_initial_weights) {
  stage s(1);
  s.start(3);
  s.lose(r0, 3);
  s.hello(r0);
  s.no_checkpoint();
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{0});
  EXPECT_EQ(s.roles(), (std::vector{state_role::initial}));
}

TEST(recovery_loss, before_the_first_commit_there_is_nothing_to_roll_back) {
  stage s(1);
  s.start();
  s.lose(r0, 0);
  s.hello(r0);
  s.no_checkpoint();
  EXPECT_FALSE(s.one<record_generation>()->rollback_to);
  EXPECT_EQ(s.now().branch, branch_id{1});
}

TEST(recovery_loss, a_survivor_that_misses_the_deadline_to_park_is_killed_and_replaced) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.feed(deadline_passed{s.now().ranks[0].wait.token});
  EXPECT_EQ(s.killed(), (std::vector{r0}));
  s.lose(r0, 7);
  s.hello(r0);
  EXPECT_TRUE(s.one<find_source>());
}

TEST(recovery_loss, a_generation_does_not_begin_before_every_killed_rank_is_known_dead) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7);
  s.feed(deadline_passed{s.now().ranks[1].wait.token});
  EXPECT_EQ(s.now().at, phase::gathering) << "a zombie may write into its peers' buckets";
  EXPECT_TRUE(s.all<join_generation>().empty());
  s.feed(deadline_passed{s.now().ranks[1].wait.token});
  EXPECT_EQ(s.killed(), (std::vector{r1})) << "again";
  s.lose(r1, 7);
  s.hello(r1);
  EXPECT_EQ(s.now().at, phase::joining);
}

TEST(recovery_loss, a_process_that_ignores_sigkill_ends_the_run_with_its_name) {
  stage s(2);
  s.start(7);
  s.feed(peers_reported_lost{generation_id{1}, {r1}});
  for (int i = 0; i < 10; ++i) s.feed(deadline_passed{s.now().ranks[1].wait.token});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::failed);
  EXPECT_NE(s.one<end_run>()->error.find("rank 1 cannot be killed"), std::string::npos);
}

TEST(recovery_loss, peers_that_report_a_loss_only_have_it_killed) {
  stage s(3);
  s.start(7);
  s.feed(peers_reported_lost{generation_id{1}, {r1, rank_id{9}}});
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.now().at, phase::training);
  s.feed(peers_reported_lost{generation_id{1}, {r1}});
  EXPECT_TRUE(s.killed().empty()) << "known already";
  s.feed(peers_reported_lost{generation_id{9}, {r0}});
  EXPECT_TRUE(s.killed().empty()) << "of another generation";
  s.lose(r1, 7);
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r2}));
}

TEST(recovery_loss, a_communicator_that_broke_without_a_culprit_is_rebuilt_and_nobody_is_killed) {
  stage s(2);
  s.start();
  s.feed(peers_reported_lost{generation_id{1}, {}});
  EXPECT_TRUE(s.all<kill_worker>().empty());
  ASSERT_EQ(s.all<revoke_generation>().size(), 1U);
  EXPECT_EQ(s.all<revoke_generation>().front().ranks.size(), 2U);
}

TEST(recovery_loss, stale_messages_are_refused_and_counted_and_change_nothing_else) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  const state before = s.now();
  const incarnation_id old{1};
  s.feed(worker_lost{r1, old, "again", "", iteration_id{7}, false, {}});
  EXPECT_TRUE(s.reason().starts_with("stale")) << s.reason();
  s.feed(worker_joined{r1, old, {generation_id{2}, iteration_id{7}, "x"}});
  s.feed(worker_joined{r0, old, {generation_id{1}, iteration_id{7}, "x"}});
  s.feed(worker_parked{r0, old, {generation_id{1}, iteration_id{7}, {}, false, true}});
  s.feed(progressed{generation_id{1}, iteration_id{9}});
  s.feed(worker_lost{rank_id{7}, old, "no such rank", "", {}, false, {}});
  state after = s.now();
  EXPECT_EQ(after.fenced, before.fenced + 6);
  after.fenced = before.fenced;
  EXPECT_EQ(after, before);
}

TEST(recovery_loss, a_crash_loop_ends_with_the_cause_and_the_tail_of_standard_error) {
  stage s(1);
  s.start();
  for (int i = 0; i < 3; ++i) {
    s.lose(r0);
    ASSERT_EQ(s.spawned(), (std::vector{r0}));
    s.hello(r0);
    s.no_checkpoint();
    s.all_join();
  }
  s.lose(r0);
  ASSERT_TRUE(s.one<end_run>());
  const std::string error = s.one<end_run>()->error;
  EXPECT_TRUE(error.starts_with("restart budget exhausted")) << error;
  EXPECT_NE(error.find("killed by signal 9 (SIGKILL)"), std::string::npos) << error;
  EXPECT_NE(error.find("last words"), std::string::npos) << error;
}

TEST(recovery_loss, rollbacks_over_the_same_stretch_are_no_progress) {
  stage s(1);
  s.start(430);
  int rounds = 0;
  while (s.now().at != phase::ended && ++rounds < 10) {
    s.lose(r0, 430);
    if (s.now().at == phase::ended) break;
    s.hello(r0);
    s.checkpoint(400);
    s.all_join();
    s.commit(429);
  }
  EXPECT_EQ(rounds, 4) << "the limit is 3 failures in a row";
}

TEST(recovery_loss, a_crash_now_and_then_goes_on_for_ever) {
  policy p = stage::limits(2);
  p.total_iterations = 0;
  stage s(p);
  s.start(1);
  for (std::uint64_t k = 1; k < 500; ++k) {
    s.lose(r1, k);
    ASSERT_EQ(s.one<spawn_worker>()->delay.count(), 0);
    s.hello(r1);
    s.park(r0, k);
    s.all_join();
    s.commit(k + 1);
    s.pass(seconds(10));
  }
  EXPECT_EQ(s.now().at, phase::training);
}

TEST(recovery_loss, more_restarts_than_allowed_within_the_window_end_the_run) {
  policy p = stage::limits(2);
  p.max_restarts = 5;
  stage s(p);
  s.start(1);
  std::uint64_t k = 1;
  while (s.now().at != phase::ended && k < 20) {
    s.lose(r1, k);
    if (s.now().at == phase::ended) break;
    s.hello(r1);
    s.park(r0, k);
    s.all_join();
    s.commit(++k);
  }
  EXPECT_EQ(k, 6u);
}

TEST(recovery_loss, the_second_failure_in_a_row_waits_and_each_next_one_longer) {
  policy p = stage::limits(1);
  p.max_failures_without_progress = 20;
  stage s(p);
  s.feed(begin{});
  std::vector<std::chrono::nanoseconds> delays;
  for (int i = 0; i < 8; ++i) {
    s.lose(r0);
    delays.push_back(s.one<spawn_worker>()->delay);
  }
  EXPECT_EQ(delays[0].count(), 0);
  EXPECT_GE(delays[1], milliseconds(50));
  EXPECT_LE(delays[1], milliseconds(100));
  EXPECT_GE(delays[3], milliseconds(200));
  EXPECT_LE(delays[3], milliseconds(400));
  EXPECT_GE(delays[7], milliseconds(500));
  EXPECT_LE(delays[7], seconds(1)) << "backoff_max";
  EXPECT_NE(delays[6], delays[7]) << "jitter";
}

TEST(recovery_loss, a_damaged_page_of_a_dead_rank_moves_nobody) {
  stage s(2);
  s.start(7);
  s.lose(r1, 999);
  s.hello(r1);
  s.park(r0, 7, 8);
  EXPECT_EQ(s.roles()[0], state_role::keep);
  EXPECT_EQ(s.now().from, iteration_id{7});
}
