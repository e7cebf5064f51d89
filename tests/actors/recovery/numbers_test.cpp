#include <tests/actors/recovery/stage.hpp>

// Wrong numbers: what the machine does about them.
using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;

namespace {

constexpr generation_id g1{1};

stage training(std::uint32_t world, non_finite_policy policy = non_finite_policy::skip) {
  auto limits = stage::limits(world);
  limits.on_non_finite = policy;
  limits.max_non_finite_rollbacks = 2;
  limits.max_failures_without_progress = 10;
  limits.digest_every = 10;
  stage s{limits};
  s.start(105);
  return s;
}

bool told(const stage& s, event::kind kind, const std::string& text) {
  for (const announce& a : s.all<announce>())
    if (a.kind == kind && a.text.find(text) != std::string::npos) return true;
  return false;
}

// ---- divergence --------------------------------------------------------------------------------

TEST(recovery_numbers, C35_the_odd_rank_is_named_and_killed_and_all_go_back_to_the_agreement) {
  stage s = training(3);
  s.agree(90);
  s.diverge(100, {r1});
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.one<kill_worker>()->cause, "its state diverged at iteration 100");
  EXPECT_TRUE(told(s, event::kind::state_diverged, "it is replaced"));
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r2}));
  s.park(r0, 106);
  s.park(r2, 106);
  s.lose(r1, 106);
  s.hello(r1);
  ASSERT_TRUE(s.one<find_source>()) << "what the survivors hold has its gradients in it";
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
  s.checkpoint(80);
  EXPECT_EQ(s.roles(), std::vector(3, state_role::load_checkpoint));
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{80});
  s.all_join();
  EXPECT_EQ(s.now().at, phase::training);
  EXPECT_EQ(s.now().agreed, iteration_id{80});
  EXPECT_FALSE(s.now().not_beyond || s.now().distrust);
}

TEST(recovery_numbers, C35_without_a_majority_nobody_is_killed_and_an_event_says_so) {
  stage s = training(2);
  s.agree(90);
  s.diverge(100, {});
  EXPECT_TRUE(s.killed().empty());
  EXPECT_TRUE(told(s, event::kind::state_diverged, "no rank can be named"));
  s.park(r0, 105);
  s.park(r1, 105);
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
  s.checkpoint(50);
  s.all_join();
  EXPECT_EQ(s.now().at, phase::training);
}

TEST(recovery_numbers, a_checkpoint_past_the_agreement_is_an_answer_to_an_older_question) {
  stage s = training(2);
  s.agree(90);
  s.diverge(100, {});
  s.park(r0, 105);
  s.park(r1, 105);
  s.checkpoint(100);
  EXPECT_EQ(s.now().at, phase::choosing);
  s.checkpoint(90);
  EXPECT_EQ(s.now().at, phase::joining);
}

TEST(recovery_numbers, nothing_agreed_and_no_checkpoint_means_the_first_iteration_again) {
  stage s = training(2);
  s.diverge(10, {});
  s.park(r0, 105);
  s.park(r1, 105);
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{0});
  s.no_checkpoint();
  EXPECT_EQ(s.roles(), std::vector(2, state_role::initial));
}

TEST(recovery_numbers, a_question_that_is_asked_again_keeps_its_bound) {
  stage s = training(2);
  s.agree(90);
  s.diverge(100, {});
  s.park(r0, 105);
  s.park(r1, 105);
  s.feed(deadline_passed{s.now().group_wait.token});
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
}

TEST(recovery_numbers, words_of_an_older_generation_and_of_no_rank_move_nobody) {
  stage s = training(2);
  s.feed(state_diverged{generation_id{0}, iteration_id{100}, {r1}});
  s.feed(states_agreed{generation_id{0}, iteration_id{100}});
  EXPECT_EQ(s.now().at, phase::training);
  EXPECT_EQ(s.now().agreed, iteration_id{0});
  s.diverge(100, {rank_id{77}});
  EXPECT_TRUE(s.killed().empty()) << "there is no rank 77: as if nobody could be named";
  EXPECT_EQ(s.now().at, phase::gathering);
}

TEST(recovery_numbers, weights_that_differ_at_the_finish_send_all_back_to_the_agreement) {
  stage s = training(3);
  s.agree(900);
  s.finish(r0, 1000, "right");
  s.finish(r1, 1000, "wrong");
  s.finish(r2, 1000, "right");
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  s.park(r0, 1000);
  s.park(r2, 1000);
  s.lose(r1, 1000);
  s.hello(r1);
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{900});
}

TEST(recovery_numbers, a_new_supervisor_knows_what_was_agreed) {
  stage s(2);
  s.feed(take_over{.last_generation = g1,
                   .branch = branch_id{1},
                   .incarnations = {incarnation_id{1}, incarnation_id{1}},
                   .last_committed = iteration_id{105},
                   .branch_since = {},
                   .agreed = iteration_id{90},
                   .not_beyond = {}});
  s.hello(r0, protocol::worker_phase::training, 1, 105);
  s.hello(r1, protocol::worker_phase::training, 1, 105);
  ASSERT_EQ(s.now().at, phase::training);
  EXPECT_EQ(s.now().agreed, iteration_id{90});
}

TEST(recovery_numbers, a_new_supervisor_ends_what_the_old_one_began_to_take_back) {
  stage s(3);
  s.feed(take_over{.last_generation = g1,
                   .branch = branch_id{1},
                   .incarnations = {incarnation_id{1}, incarnation_id{2}, incarnation_id{1}},
                   .last_committed = iteration_id{105},
                   .branch_since = {},
                   .agreed = iteration_id{90},
                   .not_beyond = iteration_id{90}});
  for (const rank_id r : {r0, r2}) s.hello(r, protocol::worker_phase::training, 1, 105);
  s.hello(r1, protocol::worker_phase::training, 1, 105);
  EXPECT_NE(s.now().at, phase::training) << "they agree, and all of them are wrong";
  s.each_rank([&](rank_id r) { s.park(r, 105); });
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
}

TEST(recovery_numbers, what_the_old_supervisor_did_not_act_on_the_new_one_reads_in_the_rings) {
  stage s(3);
  s.feed(take_over{.last_generation = g1,
                   .branch = branch_id{1},
                   .incarnations = {incarnation_id{1}, incarnation_id{1}, incarnation_id{1}},
                   .last_committed = iteration_id{105},
                   .branch_since = {},
                   .agreed = iteration_id{80},
                   .not_beyond = {}});
  s.feed(states_agreed{g1, iteration_id{90}});
  s.feed(state_diverged{g1, iteration_id{100}, {r1}});
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  s.lose(r1, 105);
  s.hello(r1);
  for (const rank_id r : {r0, r2}) s.hello(r, protocol::worker_phase::training, 1, 105);
  for (const rank_id r : {r0, r2}) s.park(r, 105);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
}

TEST(recovery_numbers, snapshots_up_to_the_agreement_are_as_good_as_checkpoints) {
  stage s = training(2);
  s.agree(90);
  s.diverge(100, {});
  s.park(r0, 105);
  s.park(r1, 105);
  EXPECT_TRUE(s.one<find_source>()->memory);
  s.snapshot(95);
  EXPECT_EQ(s.now().at, phase::choosing) << "past it";
  s.snapshot(85);
  EXPECT_EQ(s.roles(), std::vector(2, state_role::load_snapshot));
}

TEST(recovery_numbers, a_second_failure_on_the_way_back_keeps_the_bound) {
  stage s = training(3);
  s.agree(90);
  s.diverge(100, {r1});
  s.park(r0, 106);
  s.lose(r2, 106);
  s.lose(r1, 106);
  s.hello(r1);
  s.hello(r2);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
  s.lose(r0, 106);
  s.hello(r0);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{90});
}

TEST(recovery_numbers, ranks_are_told_how_often_to_digest) {
  auto limits = stage::limits(2);
  limits.digest_every = 25;
  stage s{limits};
  s.feed(begin{});
  s.all_hello();
  s.no_checkpoint();
  const auto join = s.one<join_generation>();
  ASSERT_TRUE(join);
  for (const auto& j : join->by_rank) EXPECT_EQ(j.digest_every, 25U);
}

// ---- not finite --------------------------------------------------------------------------------

TEST(recovery_numbers, C35_stop_ends_the_run_naming_iteration_and_rank) {
  stage s = training(2, non_finite_policy::stop);
  s.not_finite(r0, 106, {r1});
  EXPECT_FALSE(s.one<end_run>()) << "the other has read the same word and will say so";
  s.not_finite(r1, 106, {r1});
  const auto end = s.one<end_run>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, run_outcome::failed);
  EXPECT_NE(end->error.find("iteration 106 is not finite (on rank 1)"), std::string::npos)
      << end->error;
}

// All agreed at 100 last.
void go_back(stage& s, std::uint64_t to) {
  s.park(r0, 105);
  s.park(r1, 105);
  ASSERT_TRUE(s.one<find_source>());
  EXPECT_EQ(s.one<find_source>()->not_beyond, iteration_id{100})
      << "a flipped bit may be the cause";
  EXPECT_TRUE(s.one<find_source>()->memory);
  s.checkpoint(to);
  s.all_join();
  ASSERT_EQ(s.now().at, phase::training);
}

TEST(recovery_numbers, C35_rollback_reloads_the_newest_checkpoint_and_kills_nobody) {
  stage s = training(2, non_finite_policy::rollback);
  s.agree(100);
  s.not_finite(r0, 106, {r1});
  EXPECT_TRUE(told(s, event::kind::not_finite, "iteration 106 is not finite (on rank 1)"));
  s.not_finite(r0, 106, {r1});  // repeated on its way
  EXPECT_EQ(s.now().at, phase::training);
  s.not_finite(r1, 106, {r1});
  EXPECT_FALSE(told(s, event::kind::not_finite, "")) << "once is enough";
  EXPECT_TRUE(s.killed().empty());
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r1}));
  EXPECT_EQ(s.now().not_finite, 1U);
  go_back(s, 100);
}

TEST(recovery_numbers, a_rank_that_hangs_where_its_peers_gave_up_is_not_waited_for_long) {
  stage s = training(2, non_finite_policy::rollback);
  s.agree(100);
  s.not_finite(r0, 106);
  s.feed(deadline_passed{s.now().verdict_wait.token});
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r1}));
  EXPECT_TRUE(s.now().distrust);
}

TEST(recovery_numbers, a_rank_lost_where_its_peers_gave_up_makes_it_a_recovery_like_any_other) {
  stage s = training(2, non_finite_policy::rollback);
  s.not_finite(r0, 106);
  s.lose(r1, 105);
  s.hello(r1);
  s.park(r0, 105);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
  s.all_join();
  s.not_finite(r0, 106);
  EXPECT_EQ(s.now().at, phase::training) << "the word of the generation before does not count";
}

TEST(recovery_numbers, C35_rollbacks_that_lead_nowhere_end_the_run) {
  stage s = training(2, non_finite_policy::rollback);
  s.agree(100);
  for (int i = 0; i < 2; ++i) {
    s.each_rank([&](rank_id r) { s.not_finite(r, 106); });
    go_back(s, 100);
  }
  s.each_rank([&](rank_id r) { s.not_finite(r, 106); });
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_NE(s.one<end_run>()->error.find("after 2 rollbacks"), std::string::npos);
}

TEST(recovery_numbers, a_new_commit_after_a_rollback_starts_the_count_anew) {
  stage s = training(2, non_finite_policy::rollback);
  s.agree(100);
  s.each_rank([&](rank_id r) { s.not_finite(r, 106); });
  go_back(s, 100);
  s.commit(105);
  EXPECT_EQ(s.now().not_finite, 1U) << "done before";
  s.commit(106);
  EXPECT_EQ(s.now().not_finite, 0U);
}

}  // namespace
