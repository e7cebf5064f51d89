#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;

TEST(recovery_source, survivors_apply_what_a_dead_rank_had_committed) {
  stage s(3);
  s.start(7);
  s.lose(r2, 8);
  s.hello(r2);
  s.park(r0, 7, 8);
  s.park(r1, 7, 8);
  EXPECT_EQ(s.roles(), (std::vector{state_role::apply_prepared, state_role::apply_prepared,
                                    state_role::receive}));
  EXPECT_EQ(s.now().from, iteration_id{8});
}

TEST(recovery_source, survivors_apply_what_a_dead_rank_was_applying) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7, true);
  s.hello(r1);
  s.park(r0, 7, 8);
  EXPECT_EQ(s.roles()[0], state_role::apply_prepared);
}

TEST(recovery_source, one_survivor_that_saw_the_decision_is_enough) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7, 8, false);
  s.park(r1, 7, 8, true);
  EXPECT_EQ(s.roles()[0], state_role::apply_prepared);
  EXPECT_EQ(s.roles()[1], state_role::apply_prepared);
}

TEST(recovery_source, a_newcomer_receives_from_a_survivor_that_need_not_apply) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7, 8);
  s.park(r1, 8);
  EXPECT_EQ(s.roles(),
            (std::vector{state_role::apply_prepared, state_role::keep, state_role::receive}));
  EXPECT_EQ(s.one<join_generation>()->by_rank[2].source, r1);
}

TEST(recovery_source, an_undecided_iteration_is_done_again) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7, 8);
  EXPECT_EQ(s.roles()[0], state_role::keep);
  EXPECT_EQ(s.now().from, iteration_id{7});
}

TEST(recovery_source, a_survivor_that_cannot_catch_up_is_killed_and_never_given_state) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 5);
  s.park(r1, 7);
  EXPECT_EQ(s.killed(), (std::vector{r0}));
  s.lose(r0, 5);
  s.hello(r0);
  EXPECT_EQ(s.roles(), (std::vector{state_role::receive, state_role::keep, state_role::receive}));
}

TEST(recovery_source, a_survivor_without_state_receives_like_a_newcomer) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 0, 0, false, false);
  s.park(r1, 7);
  EXPECT_EQ(s.roles(), (std::vector{state_role::receive, state_role::keep, state_role::receive}));
}

TEST(recovery_source, what_only_a_dead_rank_had_committed_is_void_and_done_again) {
  stage s(2);
  s.start(7);
  s.commit(8);
  s.lose(r1, 8);
  s.hello(r1);
  s.park(r0, 7);
  EXPECT_EQ(s.roles()[0], state_role::keep);
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{7});
}

TEST(recovery_source, a_claim_beyond_the_end_of_the_run_is_not_believed) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 5000);
  EXPECT_EQ(s.killed(), (std::vector{r0}));
}

// ---- join --------------------------------------------------------------------------------------

TEST(recovery_join, a_loss_during_the_join_begins_another_generation) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7);
  s.park(r1, 7);
  s.join(r0);
  s.lose(r2);
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r1}));
  EXPECT_EQ(s.one<revoke_generation>()->generation, generation_id{2});
  s.park(r0, 7);
  s.park(r1, 7);
  s.hello(r2);
  EXPECT_EQ(s.one<join_generation>()->generation, generation_id{3});
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.all<record_recovery>().size(), 2u);
}

TEST(recovery_join, the_source_dying_while_it_gives_leaves_the_other_survivor_to_give) {
  stage s(3);
  s.start(7);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7);
  s.park(r1, 7);
  s.lose(r0, 7);
  s.fail_to_join(r2, error_code::peer_lost);
  s.park(r1, 7);
  s.park(r2, 0, 0, false, false);
  s.hello(r0);
  EXPECT_EQ(s.roles(), (std::vector{state_role::receive, state_role::keep, state_role::receive}));
  EXPECT_EQ(s.one<join_generation>()->by_rank[0].source, r1);
}

TEST(recovery_join, a_join_that_takes_too_long_is_revoked) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  s.feed(deadline_passed{s.now().group_wait.token});
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r1}));
}

TEST(recovery_join, a_newcomer_whose_copy_differs_is_killed) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  s.join(r0, "right");
  s.join(r1, "wrong");
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
}

TEST(recovery_join, a_survivor_that_disagrees_with_the_majority_is_killed_and_all_go_back) {
  stage s(4);
  s.start(7);
  s.lose(rank_id{3}, 7);
  s.all_hello();
  for (const rank_id r : {r0, r1, r2}) s.park(r, 7);
  for (const rank_id r : {r0, r2}) s.join(r, "right");
  s.join(r1, "wrong");
  s.join(rank_id{3}, "right");
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_TRUE(s.now().distrust) << "its gradients are in what the others hold";
}

TEST(recovery_join, without_a_majority_nobody_is_believed_and_all_load_the_checkpoint) {
  stage s(3);
  s.start(7);
  s.agree(6);
  s.lose(r2, 7);
  s.hello(r2);
  s.park(r0, 7);
  s.park(r1, 7);
  s.join(r0, "one");
  s.join(r1, "two");
  s.join(r2, "one");
  EXPECT_TRUE(s.killed().empty());
  s.each_rank([&](rank_id r) { s.park(r, 7); });
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{6});
  s.checkpoint(6);
  EXPECT_EQ(s.roles(), std::vector(3, state_role::load_checkpoint));
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{6});
}

TEST(recovery_join, distrusted_state_stays_distrusted_when_the_reload_is_cut_short) {
  stage s(2);
  s.start(7);
  s.agree(950);
  s.finish(r0, 1000, "one");
  s.finish(r1, 1000, "two");
  s.park(r0, 1000);
  s.park(r1, 1000);
  s.checkpoint(900);
  s.lose(r1, 1000);  // before rank 0 heard of the join
  s.park(r0, 1000);
  s.hello(r1);
  EXPECT_TRUE(s.one<find_source>()) << "what rank 0 holds is of a void branch";
}

TEST(recovery_join, a_newcomer_that_joined_just_before_the_survivors_died_is_a_survivor) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  s.lose(r0, 7);
  s.join(r1);  // on its way when its generation was revoked
  s.park(r1, 7);
  s.hello(r0);
  EXPECT_EQ(s.roles(), (std::vector{state_role::receive, state_role::keep}));
}

TEST(recovery_join, a_stateless_rank_that_fails_to_join_twice_is_killed) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  s.fail_to_join(r1, error_code::io);
  EXPECT_TRUE(s.killed().empty());
  s.park(r1, 0, 0, false, false);
  s.park(r0, 7);
  s.fail_to_join(r1, error_code::io);
  EXPECT_EQ(s.killed(), (std::vector{r1}));
}
