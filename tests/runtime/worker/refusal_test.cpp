#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>
#include <string>
#include <tests/runtime/worker/worker_rig.hpp>

// What does not belong, does not fit, or comes too late.
namespace ftrt {
namespace {

using namespace testing;
using protocol::state_role;
using protocol::worker_phase;
using namespace std::chrono_literals;

TEST(worker_process, hostile_bytes_close_the_control_socket_alone) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  start_two_ranks(control, values);
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (int round = 0; round < 20; ++round) {
    std::array<unsigned char, 512> bytes;
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    bytes[3] |= 0x80;  // a length beyond every limit: the stream cannot be used any more
    ASSERT_GT(::send(control.at(0).control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(control.reattach(0).rank, rank_id{0});
  }
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, messages_that_do_not_belong_are_refused_and_nothing_else_happens) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  control.send(0, protocol::joined{generation_id{1}, {}, ""});
  control.send(0, protocol::train{generation_id{9}});
  control.send(0, protocol::revoke{generation_id{0}});
  control.send_packet(0, protocol::query{}, {});
  control.send_packet(0, protocol::attach_control{}, {});
  ASSERT_EQ(::send(control.at(0).lifeline.get(), "nonsense", 8, MSG_NOSIGNAL), 8);
  control.send_to_zygote(protocol::query{});
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, joins_that_are_stale_or_do_not_fit_are_refused) {
  mini_control control{worker_program()};
  fork_two_ranks(control, small_scenario());
  control.send(0, protocol::revoke{generation_id{5}});
  EXPECT_EQ(control.expect<protocol::parked>(0).generation, generation_id{5});
  control.send_joins(4, 2, {{0, state_role::initial, 0, 0}});
  auto refused = control.expect<protocol::join_failed>(0);
  EXPECT_EQ(refused.code, error_code::stale_generation);
  EXPECT_EQ(refused.generation, generation_id{4});

  protocol::join without_memories;
  without_memories.generation = generation_id{6};
  without_memories.world_size = 2;
  control.send_packet(0, without_memories, {});
  refused = control.expect<protocol::join_failed>(0);
  EXPECT_EQ(refused.code, error_code::invalid_argument);

  control.join_and_train(7, both_initial);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, a_join_that_a_peer_never_makes_is_ended_by_revoke_and_the_next_one_works) {
  mini_control control{worker_program()};
  fork_two_ranks(control, small_scenario());
  control.send_joins(1, 2, {{0, state_role::initial, 0, 0}});
  control.send(0, protocol::query{});
  EXPECT_EQ(control.expect<protocol::hello>(0).phase, worker_phase::joining);
  control.send(0, protocol::revoke{generation_id{1}});
  EXPECT_EQ(control.expect<protocol::join_failed>(0).generation, generation_id{1});
  EXPECT_EQ(control.expect<protocol::parked>(0).generation, generation_id{1});
  control.join_and_train(2, both_initial);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

}  // namespace
}  // namespace ftrt
