#include <tests/actors/recovery/stage.hpp>

using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::state_role;
using ftrt::protocol::worker_phase;

namespace {

take_over over_two(std::uint64_t last_generation) {
  take_over over;
  over.last_generation = generation_id{last_generation};
  over.branch = branch_id{1};
  over.incarnations = {incarnation_id{1}, incarnation_id{3}};
  return over;
}

}  // namespace

TEST(recovery_take_over, a_run_whose_ranks_all_train_in_one_generation_is_adopted_as_it_is) {
  stage s(2);
  s.feed(over_two(4));
  EXPECT_TRUE(s.one<query_workers>());
  s.hello(r0, worker_phase::training, 4, 50);
  s.hello(r1, worker_phase::training, 4, 51);
  EXPECT_EQ(s.now().at, phase::training);
  EXPECT_FALSE(s.one<revoke_generation>());
  EXPECT_EQ(s.generation(), generation_id{4});
  s.lose(r1, 60);
  EXPECT_EQ(s.newest(r1), incarnation_id{4});
}

TEST(recovery_take_over, ranks_of_different_generations_are_revoked_and_join_a_newer_one) {
  stage s(2);
  s.feed(over_two(5));
  s.hello(r0, worker_phase::training, 4, 50);
  s.hello(r1, worker_phase::joining, 6, 50);
  ASSERT_TRUE(s.one<revoke_generation>());
  EXPECT_EQ(s.one<revoke_generation>()->generation, generation_id{6});
  s.park(r0, 50);
  s.park(r1, 50);
  EXPECT_EQ(s.one<join_generation>()->generation, generation_id{7});
  EXPECT_EQ(s.roles(), (std::vector{state_role::keep, state_role::keep}));
}

TEST(recovery_take_over, a_generation_older_than_the_record_is_not_adopted) {
  stage s(2);
  s.feed(over_two(5));
  s.hello(r0, worker_phase::training, 4, 50);
  s.hello(r1, worker_phase::training, 4, 50);
  EXPECT_TRUE(s.one<revoke_generation>()) << "generation 5 may be on its way to them";
}

TEST(recovery_take_over, losses_and_ranks_never_started_are_replaced) {
  stage s(2);
  auto over = over_two(4);
  over.incarnations[0] = incarnation_id{0};
  s.feed(over);
  EXPECT_EQ(s.spawned(), (std::vector{r0}));
  s.lose(r1, 50);
  EXPECT_EQ(s.spawned(), (std::vector{r1}));
  s.all_hello();
  EXPECT_TRUE(s.one<find_source>());
  s.checkpoint(40);
  EXPECT_EQ(s.one<record_generation>()->rollback_to, iteration_id{40});
}

TEST(recovery_take_over, a_worker_that_does_not_answer_is_killed) {
  stage s(2);
  s.feed(over_two(4));
  s.hello(r0, worker_phase::training, 4, 50);
  s.feed(deadline_passed{s.now().ranks[1].wait.token});
  EXPECT_EQ(s.killed(), (std::vector{r1}));
  s.lose(r1, 50);
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r0}));
}

TEST(recovery_take_over, a_finished_run_goes_on_to_its_final_checkpoint) {
  stage s(2);
  s.feed(over_two(4));
  protocol::finished said;
  said.generation = generation_id{4};
  said.iteration = iteration_id{1000};
  s.hello(r0, worker_phase::finished, 4, 1000);
  s.feed(worker_finished{r0, s.newest(r0), said});
  s.hello(r1, worker_phase::finished, 4, 1000);
  EXPECT_EQ(s.now().at, phase::training);
  s.feed(worker_finished{r1, s.newest(r1), said});
  EXPECT_TRUE(s.one<await_final_checkpoint>());
}

TEST(recovery_take_over, state_of_a_void_branch_is_not_believed) {
  stage s(2);
  auto over = over_two(5);
  over.branch = branch_id{2};
  over.branch_since = generation_id{5};
  s.feed(over);
  s.hello(r0, worker_phase::parked, 4, 50);
  s.hello(r1, worker_phase::parked, 4, 50);
  s.park(r0, 50);
  s.park(r1, 50);
  EXPECT_TRUE(s.one<find_source>());
}

TEST(recovery_take_over, a_supervisor_that_dies_is_no_way_around_a_limit) {
  auto limits = stage::limits(2);
  limits.poison_limit = 3;
  const auto die = [](stage& s) {
    worker_lost e;
    e.rank = r1;
    e.incarnation = s.newest(r1);
    e.cause = "killed by signal 6 (SIGABRT)";
    e.committed = iteration_id{7};
    e.in_window = true;
    s.feed(e);
  };
  const auto come_back = [](stage& s) {
    s.park(r0, 7);
    s.all_hello();
    s.all_join();
    ASSERT_EQ(s.now().at, phase::training);
  };
  stage first(limits);
  first.start(7);
  die(first);
  come_back(first);
  die(first);

  stage second(limits);
  take_over over = over_two(first.generation().value());
  over.incarnations = {first.newest(r0), incarnation_id{2}};
  over.last_committed = iteration_id{7};
  over.counts = counts_of(first.now());
  second.feed(over);
  EXPECT_EQ(second.now().barren, 2U);
  EXPECT_EQ(second.now().restarts.size(), 2U);
  die(second);  // whose successor was ordered, and never came to be
  EXPECT_FALSE(second.one<report_poison>()) << "it was counted before";
  EXPECT_EQ(second.now().restarts.size(), 2U) << "and so was its replacement";
  EXPECT_EQ(second.now().ranks[1].attempts, 2U);
  second.hello(r0, worker_phase::training, first.generation().value(), 7);
  come_back(second);
  die(second);
  EXPECT_TRUE(second.one<report_poison>()) << "the third";
}

TEST(recovery_take_over, a_recovery_that_outlives_its_supervisor_is_on_record_once_and_whole) {
  stage first(2);
  first.start(7);
  first.lose(r1, 7);
  first.park(r0, 7);
  first.hello(r1);
  first.all_join();
  ASSERT_EQ(first.now().at, phase::training);

  stage second(2);
  take_over over = over_two(first.generation().value());
  over.incarnations = {first.newest(r0), first.newest(r1)};
  over.last_committed = iteration_id{7};
  over.counts = counts_of(first.now());
  second.feed(over);
  second.hello(r0, worker_phase::training, 2, 7);
  second.hello(r1, worker_phase::training, 2, 7);
  ASSERT_EQ(second.now().at, phase::training) << "adopted as it is";
  second.commit(8);
  const auto made_good = second.one<record_recovery>();
  ASSERT_TRUE(made_good.has_value());
  EXPECT_EQ(made_good->rank, r1);
  EXPECT_EQ(made_good->cause, "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(made_good->source, "survivor:0");
  EXPECT_TRUE(second.now().unrecovered.empty());
  second.commit(9);
  EXPECT_FALSE(second.one<record_recovery>());
}

TEST(recovery_take_over, a_new_trainer_repeats_what_may_be_lost) {
  stage s(2);
  s.start(10);
  s.hello(r1, worker_phase::joined, 1, 10);
  EXPECT_TRUE(s.one<start_training>());
  s.feed(stop_requested{"SIGTERM"});
  s.hello(r1, worker_phase::training, 1, 11);
  EXPECT_TRUE(s.one<ask_to_stop>());
  s.lose(r0, 11);
  s.hello(r1, worker_phase::training, 1, 11);
  ASSERT_TRUE(s.one<revoke_generation>());
  EXPECT_EQ(s.one<revoke_generation>()->ranks, (std::vector{r1}));
}
