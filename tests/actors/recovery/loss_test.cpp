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
