#include <gtest/gtest.h>

#include <string>
#include <tests/runtime/worker/worker_rig.hpp>

// A user's own worker program, with models that misbehave.
namespace ftrt {
namespace {

using namespace testing;
using protocol::state_role;
using protocol::worker_phase;
using namespace std::chrono_literals;

scenario difficult(const std::string& model) {
  auto values = small_scenario();
  values.model.kind = model;
  values.model.layers.clear();
  values.model.dropout = 0;
  return values;
}

TEST(worker_program_of_a_user, a_model_that_throws_is_a_program_error_and_the_rank_still_stands) {
  mini_control control{FTRT_DIFFICULT_WORKER};
  start_two_ranks(control, difficult("throwing"));
  const auto failed = control.expect<protocol::program_failed>(0);
  EXPECT_NE(failed.text.find("the fortieth batch is not to my taste"), std::string::npos);
  EXPECT_GT(failed.iteration.value(), 0u);
  control.send(0, protocol::revoke{generation_id{1}});
  EXPECT_EQ(control.expect<protocol::parked>(0).generation, generation_id{1});
  dismiss(control, {0, 1});
}

TEST(worker_program_of_a_user, C06_a_model_that_never_comes_back_does_not_keep_its_worker_alive) {
  mini_control control{FTRT_DIFFICULT_WORKER};
  start_two_ranks(control, difficult("stuck"));
  control.wait_committed(0, 10);
  control.send(0, protocol::query{});
  EXPECT_EQ(control.expect<protocol::hello>(0).phase, worker_phase::training);
  dismiss(control, {0, 1});
}

TEST(worker_program_of_a_user, a_model_that_starts_a_thread_is_refused_before_any_fork) {
  mini_control control{FTRT_DIFFICULT_WORKER};
  const auto answer = control.configure(difficult("threaded"));
  const auto* refused = std::get_if<protocol::zygote_refused>(&answer);
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->diagnostics.at(0).found.find("thread"), std::string::npos);
}

}  // namespace
}  // namespace ftrt
