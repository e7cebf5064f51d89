#include <gtest/gtest.h>

#include <actors/control/take_down.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

// In real time: a blocking wait knows no other.
class taking_down : public ::testing::Test {
 protected:
  // Waits for an alarm that is far away.
  static caf::behavior polite(caf::event_based_actor* self) {
    self->delayed_send(self, 1h, 1);
    return {[](int) {}};
  }
  // So does this one, and hears of no end.
  static caf::behavior deaf(caf::event_based_actor* self) {
    self->set_exit_handler([](caf::scheduled_actor*, caf::exit_msg&) {});
    return polite(self);
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
};

TEST_F(taking_down, C41_an_actor_that_leaves_is_waited_for) {
  const auto actor = system_.spawn(&polite);
  EXPECT_TRUE(take_down(self_, actor, 1min));
  EXPECT_TRUE(take_down(self_, actor, 1min)) << "it has left already";
  EXPECT_TRUE(take_down(self_, caf::actor{}, 1min));
}

TEST_F(taking_down, C41_one_that_does_not_leave_by_its_deadline_is_told_of_and_killed) {
  const auto stays = system_.spawn(&deaf);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(take_down(self_, stays, 50ms));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
  // Its end comes while another one is waited for, and is not taken for that one's.
  const auto next = system_.spawn(&deaf);
  EXPECT_FALSE(take_down(self_, next, 50ms));
  EXPECT_TRUE(take_down(self_, stays, 1min));
  EXPECT_TRUE(take_down(self_, next, 1min));
}  // the system waits for all that are left: nobody is

}  // namespace
}  // namespace ftrt::actors
