#include <tests/actors/recovery/stage.hpp>

// A failure while another one is made good, and the rungs below the survivors.
using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;

namespace {

rung snapshot_of(std::uint64_t k) {
  return {rung::kind::snapshot, iteration_id{k}, {}};
}

// Both ranks of two die in training with `committed` commits; their successors are there.
void lose_all(stage& s, std::uint64_t committed) {
  s.lose(r0, committed);
  s.lose(r1, committed);
  s.all_hello();
}

}  // namespace

TEST(second_failure, a_loss_before_the_first_hello_is_replaced_and_the_run_starts) {
  stage s(2);
  s.feed(begin{});
  s.hello(r0);
  s.lose(r1);
  EXPECT_EQ(s.spawned(), (std::vector{r1}));
  s.hello(r1);
  ASSERT_TRUE(s.one<find_source>());
  s.no_checkpoint();
  EXPECT_EQ(s.roles(), std::vector(2, state_role::initial));
}

TEST(second_failure, a_loss_in_the_first_join_begins_the_next_generation) {
  stage s(2);
  s.feed(begin{});
  s.all_hello();
  s.no_checkpoint();
  s.join(r0);
  s.lose(r1);
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
  s.park(r0, 0);
  s.hello(r1);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
  EXPECT_EQ(s.generation(), generation_id{2});
}

TEST(second_failure, a_loss_while_memory_and_catalog_are_searched_asks_them_again) {
  stage s(2);
  s.start(7);
  lose_all(s, 7);
  ASSERT_EQ(s.now().at, phase::choosing);
  s.lose(r0);
  EXPECT_EQ(s.now().at, phase::gathering);
  s.snapshot(6);  // the answer to the first question comes too late
  EXPECT_EQ(s.now().at, phase::gathering);
  s.hello(r0);
  ASSERT_TRUE(s.one<find_source>());
  s.snapshot(6);
  EXPECT_EQ(s.roles(), std::vector(2, state_role::load_snapshot));
}

TEST(second_failure, the_only_source_dying_while_it_gives_leaves_the_snapshot) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  s.hello(r1);
  s.park(r0, 7);
  ASSERT_EQ(s.now().at, phase::joining);
  s.lose(r0, 7);
  s.park(r1, 0, 0, false, false);
  s.hello(r0);
  ASSERT_TRUE(s.one<find_source>());
  s.snapshot(6);
  EXPECT_EQ(s.roles(), std::vector(2, state_role::load_snapshot));
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{6});
  EXPECT_EQ(s.one<record_generation>()->reached, iteration_id{7});
}

TEST(second_failure, a_loss_in_the_final_save_is_made_good_when_the_save_fails) {
  stage s(2);
  s.start(7);
  s.each_rank([&](rank_id r) { s.finish(r, 1000); });
  s.lose(r1, 1000);
  EXPECT_EQ(s.now().at, phase::finishing) << "its snapshot outlives it";
  s.feed(final_checkpoint_settled{iteration_id{1000}, false, "torn"});
  EXPECT_EQ(s.spawned(), (std::vector{r1}));
  s.park(r0, 1000);
  s.hello(r1);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
  s.all_join();
  s.each_rank([&](rank_id r) { s.finish(r, 1000); });
  s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::completed);
}

TEST(second_failure, all_dying_in_the_join_from_a_snapshot_load_it_again) {
  stage s(2);
  s.start(7);
  lose_all(s, 7);
  s.snapshot(6);
  lose_all(s, 0);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_TRUE(s.one<find_source>()->quarantined.empty()) << "it did not fail: its loaders did";
  s.snapshot(6);
  s.all_join();
  s.commit(7);
  EXPECT_EQ(s.all<record_recovery>().size(), 4u);
  EXPECT_EQ(s.all<record_recovery>()[0].source, "snapshot:6");
  EXPECT_EQ(s.all<record_recovery>()[0].lost_iterations, 1U)
      << "the first rollback's, though it took a second one to get going";
  lose_all(s, 7);
  s.snapshot(7);
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.all<record_recovery>()[0].lost_iterations, 0U) << "told already";
}

// ---- the ladder --------------------------------------------------------------------------------

TEST(recovery_ladder, a_snapshot_at_the_last_commit_loses_nothing_and_opens_no_branch) {
  stage s(2);
  s.start(7);
  lose_all(s, 7);
  s.snapshot(7);
  EXPECT_FALSE(s.one<record_generation>()->rollback_to);
  s.all_join();
  s.commit(8);
  EXPECT_EQ(s.all<record_recovery>()[0].lost_iterations, 0u);
}

TEST(recovery_ladder, a_snapshot_behind_the_last_commit_is_a_rollback_with_its_own_branch) {
  stage s(2);
  s.start(7);
  lose_all(s, 7);
  s.snapshot(5);
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{5});
  EXPECT_EQ(s.one<record_generation>()->branch, branch_id{2});
  s.all_join();
  s.commit(6);
  EXPECT_EQ(s.all<record_recovery>()[0].lost_iterations, 2u);
}

TEST(recovery_ladder, what_does_not_load_is_set_aside_and_the_next_rung_is_tried) {
  stage s(2);
  s.start(7);
  lose_all(s, 7);
  s.snapshot(7);
  s.fail_to_join(r0, error_code::corrupt, "wrong iteration");
  s.each_rank([&](rank_id r) { s.park(r, 0, 0, false, false); });
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->quarantined, (std::vector{snapshot_of(7)}));
  s.checkpoint(6);
  s.fail_to_join(r1, error_code::corrupt, "digest differs");
  s.each_rank([&](rank_id r) { s.park(r, 0, 0, false, false); });
  EXPECT_EQ(s.one<find_source>()->quarantined.size(), 2u) << "the snapshot stays set aside";
  s.no_checkpoint();
  EXPECT_EQ(s.roles(), std::vector(2, state_role::initial));
}

TEST(recovery_ladder, an_answer_to_a_question_of_an_older_generation_is_refused) {
  stage s(2);
  s.start(7);
  const generation_id old = s.generation();
  lose_all(s, 7);
  s.snapshot(6);
  lose_all(s, 0);
  ASSERT_EQ(s.now().at, phase::choosing);
  const std::uint64_t fenced = s.now().fenced;
  s.feed(source_found{old, snapshot_of(7)});
  EXPECT_EQ(s.now().at, phase::choosing);
  EXPECT_EQ(s.now().fenced, fenced + 1);
}

TEST(recovery_ladder, snapshots_past_the_last_agreement_are_not_asked_for) {
  stage s(2);
  s.start(7);
  s.agree(900);
  s.finish(r0, 1000, "one");
  s.finish(r1, 1000, "two");
  s.each_rank([&](rank_id r) { s.park(r, 1000); });
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{900});
}

// Nobody trained: what they all loaded was read in two ways, and nobody can say which is right.
TEST(recovery_ladder, snapshots_of_ranks_that_are_not_believed_are_not_asked_for) {
  stage s(2);
  s.feed(begin{});
  s.all_hello();
  s.snapshot(5);
  s.join(r0, "one");
  s.join(r1, "two");
  s.each_rank([&](rank_id r) { s.park(r, 5); });
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_FALSE(s.one<find_source>()->memory);
  EXPECT_FALSE(s.one<find_source>()->not_beyond);
}

TEST(recovery_ladder, the_milliseconds_of_a_recovery_are_told_stretch_by_stretch) {
  stage s(2);
  s.start(7);
  s.pass(milliseconds(100));
  s.lose(r1, 7);  // 5 ms after its fault, in the stage's own way, and 1 ms for the step
  s.pass(milliseconds(9));
  s.park(r0, 7);
  s.pass(milliseconds(19));
  s.hello(r1);
  s.pass(milliseconds(29));
  s.join(r0);
  s.join(r1, "same", milliseconds(20));
  s.pass(milliseconds(39));
  s.commit(8);
  const auto recovered = s.one<record_recovery>();
  ASSERT_TRUE(recovered);
  EXPECT_DOUBLE_EQ(recovered->times.detect_ms, 6);
  EXPECT_DOUBLE_EQ(recovered->times.park_ms, 10);
  EXPECT_DOUBLE_EQ(recovered->times.spawn_ms, 20);
  EXPECT_DOUBLE_EQ(recovered->times.join_ms, 31);
  EXPECT_DOUBLE_EQ(recovered->times.state_ms, 20);
  EXPECT_DOUBLE_EQ(recovered->times.first_step_ms, 40);
  EXPECT_DOUBLE_EQ(recovered->resumed_ms, 107);
  bool told = false;
  for (const announce& a : s.all<announce>())
    told = told || a.text.find("(detect 6, park 10, spawn 20, join 31, first step 40)") !=
                       std::string::npos;
  EXPECT_TRUE(told);
}
