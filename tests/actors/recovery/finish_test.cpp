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
