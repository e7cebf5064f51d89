#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;

TEST(recovery_finish, a_run_is_complete_when_its_final_checkpoint_is_committed) {
  stage s(2);
  s.start(10);
  s.finish(r0, 1000);
  EXPECT_FALSE(s.one<await_final_checkpoint>());
  s.finish(r1, 1000);
  ASSERT_TRUE(s.one<await_final_checkpoint>());
  EXPECT_EQ(s.one<await_final_checkpoint>()->iteration, iteration_id{1000});
  s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
  const auto end = s.one<end_run>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, run_outcome::completed);
  EXPECT_EQ(end->error, "");
  ASSERT_TRUE(end->last);
  EXPECT_EQ(end->last->weights_digest, "weights");
}

namespace {

constexpr std::uint64_t last = 1000;

final_checkpoint_settled no_space(std::uint64_t iteration = last) {
  return {iteration_id{iteration}, false, "no space on /runs"};
}

// Both ranks finish, and the disk has no room. Before the last iteration: as they were told to
// stop.
void finish_on_a_full_disk(stage& s, std::uint64_t iteration = last) {
  s.each_rank([&](rank_id r) { s.finish(r, iteration, "weights", iteration < last); });
  EXPECT_TRUE(s.one<await_final_checkpoint>());
  s.feed(no_space(iteration));
}

void join_once_more(stage& s, std::uint64_t iteration = last) {
  ASSERT_TRUE(s.one<revoke_generation>()) << "the ranks can finish again";
  s.each_rank([&](rank_id r) { s.park(r, iteration); });
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::keep}));
  s.all_join();
}

}  // namespace

TEST(recovery_finish, C17_a_final_checkpoint_that_cannot_be_written_fails_the_run) {
  stage s(2);
  s.start(10);
  finish_on_a_full_disk(s);
  std::chrono::nanoseconds paused{};
  int attempts = 1;
  for (; !s.one<end_run>(); ++attempts) {
    ASSERT_LT(attempts, 100);
    if (attempts > 1) {  // the second one is at once
      const auto wait = s.now().group_wait;
      const auto pause = wait.at - s.time();
      EXPECT_GT(pause.count(), 0);
      EXPECT_LE(pause, std::chrono::seconds(1)) << "backoff_max";
      paused += pause;
      s.pass(pause);
      s.feed(deadline_passed{wait.token});
    }
    join_once_more(s);
    finish_on_a_full_disk(s);
  }
  EXPECT_NEAR(std::chrono::duration<double>(paused).count(), 30, 1.5) << "stop_timeout";
  const auto end = s.one<end_run>();
  EXPECT_EQ(end->outcome, run_outcome::failed);
  EXPECT_NE(end->error.find("no space on /runs"), std::string::npos);
}

TEST(recovery_finish, C17_room_that_is_made_in_time_completes_the_run) {
  stage s(2);
  s.start(10);
  finish_on_a_full_disk(s);
  join_once_more(s);
  finish_on_a_full_disk(s);
  EXPECT_FALSE(s.one<revoke_generation>()) << "a pause first";
  s.feed(no_space());  // said twice
  EXPECT_TRUE(s.all<announce>().empty());
  s.feed(deadline_passed{s.now().group_wait.token});
  join_once_more(s);
  s.each_rank([&](rank_id r) { s.finish(r, 1000); });
  s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::completed);
}

TEST(recovery_finish, C17_a_stop_on_a_full_disk_ends_when_its_time_is_over) {
  stage s(2);
  s.start(10);
  s.feed(stop_requested{"SIGTERM"});
  finish_on_a_full_disk(s, 12);
  join_once_more(s, 12);
  finish_on_a_full_disk(s, 12);
  s.feed(deadline_passed{s.now().stop_wait.token});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::stopped);
  EXPECT_NE(s.one<end_run>()->error.find("no space on /runs"), std::string::npos);
}

TEST(recovery_finish, a_final_checkpoint_of_which_nobody_speaks_is_asked_for_again) {
  stage s(1);
  s.start(10);
  s.finish(r0, 1000);
  for (int i = 0; i < 2; ++i) {
    s.feed(deadline_passed{s.now().group_wait.token});
    EXPECT_TRUE(s.one<await_final_checkpoint>());
  }
  s.feed(deadline_passed{s.now().group_wait.token});
  EXPECT_TRUE(s.one<revoke_generation>());
}

TEST(recovery_finish, a_rank_lost_after_all_finished_needs_no_recovery) {
  stage s(2);
  s.start(10);
  s.finish(r0, 1000);
  s.finish(r1, 1000);
  s.lose(r0, 1000);
  s.lose(r1, 1000);
  EXPECT_TRUE(s.spawned().empty());
  s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::completed);
  EXPECT_TRUE(s.one<end_run>()->last);
}

TEST(recovery_finish, a_rank_lost_before_all_finished_is_replaced) {
  stage s(2);
  s.start(10);
  s.finish(r0, 1000);
  s.lose(r1, 999);
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
  s.park(r0, 1000);
  s.hello(r1);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
}

TEST(recovery_finish, final_weights_that_differ_are_damage_and_the_odd_rank_is_replaced) {
  stage s(3);
  s.start(10);
  s.finish(r0, 1000, "right");
  s.finish(r1, 1000, "wrong");
  s.finish(r2, 1000, "right");
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0, r2}));
}

TEST(recovery_finish, a_finish_before_the_last_iteration_is_no_success) {
  stage s(1);
  s.start(10);
  s.finish(r0, 20);
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::failed);
}

// ---- stop --------------------------------------------------------------------------------------

TEST(recovery_stop, C05_a_stop_ends_with_a_committed_checkpoint) {
  stage s(2);
  s.start(10);
  s.feed(stop_requested{"SIGTERM"});
  EXPECT_TRUE(s.one<ask_to_stop>());
  s.each_rank([&](rank_id r) { s.finish(r, 12, "weights", true); });
  s.feed(final_checkpoint_settled{iteration_id{12}, true, ""});
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::stopped);
  EXPECT_EQ(s.one<end_run>()->error, "");
}

TEST(recovery_stop, C05_a_stop_during_start_or_recovery_is_asked_for_once_training_begins) {
  stage s(2);
  s.feed(begin{});
  s.feed(stop_requested{"SIGINT"});
  EXPECT_FALSE(s.one<ask_to_stop>());
  s.all_hello();
  s.no_checkpoint();
  s.all_join();
  EXPECT_TRUE(s.one<ask_to_stop>());
  s.lose(r1, 0);
  s.park(r0, 0);
  s.hello(r1);
  s.all_join();
  EXPECT_TRUE(s.one<ask_to_stop>()) << "and again after a recovery";
}

TEST(recovery_stop, a_stop_that_misses_its_deadline_kills_all_and_says_so) {
  stage s(2);
  s.start(10);
  s.feed(stop_requested{"SIGTERM"});
  s.feed(deadline_passed{s.one<set_deadline>()->token});
  EXPECT_EQ(s.killed(), (std::vector{r0, r1}));
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::stopped);
  EXPECT_NE(s.one<end_run>()->error.find("deadline"), std::string::npos);
  EXPECT_FALSE(s.one<end_run>()->last);
}

// ---- program errors ----------------------------------------------------------------------------

TEST(recovery_program, the_same_error_on_all_ranks_ends_the_run_with_it) {
  stage s(2);
  s.start(10);
  s.fail_program(r0, "shape mismatch");
  EXPECT_EQ(s.now().at, phase::training);
  s.fail_program(r1, "shape mismatch");
  ASSERT_TRUE(s.one<end_run>());
  EXPECT_EQ(s.one<end_run>()->outcome, run_outcome::failed);
  EXPECT_EQ(s.one<end_run>()->error, "program error on every rank: shape mismatch");
}

TEST(recovery_program, an_error_on_one_rank_alone_replaces_it) {
  stage s(2);
  s.start(10);
  s.fail_program(r1, "bad sample");
  s.feed(deadline_passed{s.now().verdict_wait.token});
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
  s.lose(r1, 10);
  s.hello(r1);
  s.park(r0, 10);
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::receive}));
}

TEST(recovery_program, a_rank_that_failed_is_not_asked_to_park_when_another_is_lost) {
  stage s(3);
  s.start(10);
  s.fail_program(r1, "bad sample");
  s.lose(r2, 10);
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
}
