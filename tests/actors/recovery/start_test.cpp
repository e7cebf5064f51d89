#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;
using ftrt::protocol::worker_phase;
using testing::Test;

TEST(recovery_start, a_fresh_run_starts_all_ranks_from_initial_weights_in_generation_1) {
  stage s(2);
  s.feed(begin{});
  EXPECT_EQ(s.spawned(), (std::vector{r0, r1}));
  s.hello(r0);
  EXPECT_FALSE(s.one<find_source>());
  s.hello(r1);
  EXPECT_TRUE(s.one<find_source>());
  s.no_checkpoint();
  const auto record = s.one<record_generation>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->generation, generation_id{1});
  EXPECT_EQ(record->branch, branch_id{1});
  EXPECT_FALSE(record->rollback_to);
  EXPECT_EQ(s.roles(), (std::vector{state_role::initial, state_role::initial}));
  s.join(r0);
  EXPECT_FALSE(s.one<start_training>());
  s.join(r1);
  ASSERT_TRUE(s.one<start_training>());
  EXPECT_EQ(s.one<start_training>()->generation, generation_id{1});
}

TEST(recovery_start, a_resumed_run_loads_its_checkpoint_on_a_new_branch_and_says_what_was_lost) {
  stage s(2);
  s.feed(begin{
      generation_id{4}, branch_id{2}, iteration_id{430}, {incarnation_id{3}, incarnation_id{1}}});
  EXPECT_EQ(s.newest(r0), incarnation_id{4});
  s.all_hello();
  s.checkpoint(400);
  const auto record = s.one<record_generation>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->generation, generation_id{5});
  EXPECT_EQ(record->branch, branch_id{3});
  EXPECT_EQ(record->from, iteration_id{400});
  EXPECT_EQ(record->rollback_to, iteration_id{400});
  EXPECT_EQ(s.roles(), (std::vector{state_role::load_checkpoint, state_role::load_checkpoint}));
  EXPECT_EQ(s.one<join_generation>()->by_rank[1].checkpoint_directory, "/run/checkpoints/1");
  EXPECT_EQ(s.now().abandoned, iteration_id{30});
}

TEST(recovery_start, a_newcomer_that_dies_before_hello_is_started_again) {
  stage s(2);
  s.feed(begin{});
  s.hello(r0);
  s.lose(r1);
  EXPECT_EQ(s.spawned(), (std::vector{r1}));
  EXPECT_EQ(s.newest(r1), incarnation_id{2});
  s.hello(r1);
  s.no_checkpoint();
  s.all_join();
  EXPECT_EQ(s.now().at, phase::training);
}

TEST(recovery_start, a_worker_that_cannot_be_started_is_tried_again_until_the_budget_is_spent) {
  stage s(1);
  s.feed(begin{});
  for (int i = 0; i < 3; ++i) {
    s.feed(worker_start_failed{r0, s.newest(r0), "no memory"});
    ASSERT_EQ(s.spawned(), (std::vector{r0}));
  }
  s.feed(worker_start_failed{r0, s.newest(r0), "no memory"});
  const auto end = s.one<end_run>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, run_outcome::failed);
  EXPECT_NE(end->error.find("no memory"), std::string::npos) << end->error;
}

TEST(recovery_start, a_worker_that_never_says_hello_is_killed_and_replaced) {
  stage s(1);
  s.feed(begin{});
  s.feed(deadline_passed{s.one<set_deadline>()->token});
  EXPECT_EQ(s.killed(), (std::vector{r0}));
  EXPECT_TRUE(s.spawned().empty()) << "its successor waits for its death";
  s.lose(r0);
  EXPECT_EQ(s.spawned(), (std::vector{r0}));
}

TEST(recovery_start, a_worker_of_another_protocol_version_is_refused) {
  stage s(1);
  s.feed(begin{});
  protocol::hello said;
  said.version = 99;
  said.incarnation = incarnation_id{1};
  s.feed(worker_said_hello{said});
  EXPECT_EQ(s.killed(), (std::vector{r0}));
}

TEST(recovery_start, C18_a_checkpoint_that_does_not_load_is_quarantined_and_the_one_before_loads) {
  stage s(2);
  s.feed(begin{generation_id{4}, branch_id{1}, iteration_id{430}, {}});
  s.all_hello();
  s.checkpoint(400);
  s.join(r0);
  s.fail_to_join(r1, error_code::corrupt, "digest of model-0.safetensors differs");
  ASSERT_TRUE(s.one<revoke_generation>());
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r1}));
  s.park(r0, 0, 0, false, false);
  s.park(r1, 0, 0, false, false);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->quarantined,
            (std::vector{rung{rung::kind::checkpoint, iteration_id{400}, "/run/checkpoints/1"}}));
  s.feed(source_found{generation_id{4}, s.now().quarantined.front()});  // an older question's
  EXPECT_EQ(s.now().at, phase::choosing);
  s.checkpoint(350);
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{350});
  s.all_join();
  EXPECT_EQ(s.now().at, phase::training);
}

TEST(recovery_start, a_catalog_that_does_not_answer_is_asked_three_times) {
  stage s(1);
  s.feed(begin{});
  s.hello(r0);
  for (int i = 0; i < 2; ++i) {
    s.feed(deadline_passed{s.now().group_wait.token});
    EXPECT_TRUE(s.one<find_source>());
  }
  s.feed(deadline_passed{s.now().group_wait.token});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::failed);
}
