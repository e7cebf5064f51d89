#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <tests/runtime/worker/worker_rig.hpp>
#include <thread>

// The life of the real worker program, driven through its sockets, with real signals.
namespace ftrt {
namespace {

using namespace testing;
using protocol::state_role;
using protocol::worker_phase;
using namespace std::chrono_literals;

// Two survivors' or one survivor's next generation, as the recovery machine would decide it: if any
// saw the decision, all that are prepared apply it; a newcomer receives from rank 0.
mini_control::part survivor_part(const protocol::parked& parked) {
  EXPECT_TRUE(parked.has_state);
  mini_control::part part{0, state_role::keep, parked.committed.value(), 0};
  if (parked.decided && parked.prepared > parked.committed) {
    part.role = state_role::apply_prepared;
    part.iteration = parked.prepared.value();
  }
  return part;
}

TEST(worker_process, two_ranks_train_to_the_end_with_one_digest_and_leave_with_0) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto end = finish(control);
  EXPECT_EQ(end.iteration.value(), 30u * 32u);
  EXPECT_EQ(end.weights_digest.size(), 32u);
  EXPECT_FALSE(end.stopped);
  dismiss(control, {0, 1});
  const auto gone = control.expect_from_zygote<protocol::worker_exited>();
  EXPECT_TRUE(WIFEXITED(gone.wait_status));
  EXPECT_EQ(WEXITSTATUS(gone.wait_status), 0);
}

// "0-1", of each thread of the process; of the training thread alone, or of all others.
std::set<std::string> cores_of(int pid, bool training) {
  std::set<std::string> found;
  for (const auto& task :
       std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/task"}) {
    std::ifstream status{task.path() / "status"};
    bool ours = false;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) ours = line.ends_with("ftrt-train") == training;
      constexpr std::string_view key = "Cpus_allowed_list:\t";
      if (ours && line.starts_with(key)) found.insert(line.substr(key.size()));
    }
  }
  return found;
}

// What a thread starts, and what its communicator takes for its cores, it has from then.
TEST(worker_process,
     a_training_thread_is_kept_on_one_core_from_its_join_to_the_next_command_alone) {
  const auto all = cores_of(::getpid(), false);
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  mini_control control{worker_program()};
  fork_two_ranks(control, small_scenario());
  for (const std::uint64_t generation : {1, 2}) {
    control.send_joins(generation, 2, both_initial);
    static_cast<void>(control.expect<protocol::joined>(0));
    static_cast<void>(control.expect<protocol::joined>(1));
    EXPECT_NE(cores_of(control.at(0).pid, true), all);
    EXPECT_NE(cores_of(control.at(0).pid, true), cores_of(control.at(1).pid, true));
    EXPECT_EQ(cores_of(control.at(0).pid, false), all) << "in generation " << generation;
    control.send(0, protocol::revoke{generation_id{generation}});
    static_cast<void>(control.expect<protocol::parked>(0));
    EXPECT_EQ(cores_of(control.at(0).pid, true), all);
    control.send(1, protocol::revoke{generation_id{generation}});
    static_cast<void>(control.expect<protocol::parked>(1));
  }
}

TEST(worker_process,
     C01_a_killed_rank_is_replaced_and_the_digest_is_that_of_the_run_without_faults) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  control.wait_committed(1, 200);
  control.kill(1, SIGKILL);

  const auto lost = control.expect<protocol::peer_lost>(0);
  EXPECT_EQ(lost.lost, std::vector{rank_id{1}});
  control.send(0, protocol::revoke{generation_id{1}});
  const auto parked = control.expect<protocol::parked>(0);
  EXPECT_EQ(parked.generation, generation_id{1});
  const auto gone = control.expect_from_zygote<protocol::worker_exited>();
  EXPECT_EQ(gone.rank, rank_id{1});
  EXPECT_TRUE(WIFSIGNALED(gone.wait_status));

  const auto survivor = survivor_part(parked);
  control.fork(1);
  control.join_and_train(2, {survivor, {1, state_role::receive, survivor.iteration, 0}});
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, a_lost_control_socket_is_replaced_while_training_goes_on) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  control.wait_committed(0, 100);
  control.at(0).control.reset();
  control.wait_committed(0, 150);
  const auto hello = control.reattach(0);
  EXPECT_EQ(hello.rank, rank_id{0});
  EXPECT_EQ(hello.generation, generation_id{1});
  EXPECT_EQ(hello.phase, worker_phase::training);
  EXPECT_TRUE(hello.has_state);
  EXPECT_GE(hello.committed.value(), 150u);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, what_an_actor_said_before_it_died_still_holds) {
  mini_control control{worker_program()};
  fork_two_ranks(control, small_scenario());
  control.send_joins(1, 2, both_initial);
  for (const auto rank : {0u, 1u}) {
    control.expect<protocol::joined>(rank);
    // Stopped, so that it finds the command, the end of its socket and the new one all at once.
    control.kill(rank, SIGSTOP);
    control.send(rank, protocol::train{generation_id{1}});
  }
  for (const auto rank : {0u, 1u}) {
    control.send_attach(rank);
    control.kill(rank, SIGCONT);
    control.expect<protocol::hello>(rank);
  }
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, a_finish_that_nobody_heard_is_said_again_to_the_next_control_socket) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  control.at(0).control.reset();
  const auto heard = control.expect<protocol::finished>(1);
  protocol::hello hello;
  do {
    hello = control.reattach(0);
  } while (hello.phase != worker_phase::finished);
  const auto repeated = control.expect<protocol::finished>(0);
  EXPECT_EQ(repeated.weights_digest, heard.weights_digest);
  // The final snapshot as well, and before it.
  bool final_snapshot = false;
  for (const auto& m : control.at(0).skipped) {
    const auto* snapshot = std::get_if<protocol::snapshot_ready>(&m);
    final_snapshot |= snapshot != nullptr && snapshot->final;
  }
  EXPECT_TRUE(final_snapshot);
}

// The trainer heard it, but the supervisor that it told died before it had listened.
TEST(worker_process, a_finish_is_said_again_to_who_asks) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto heard = control.expect<protocol::finished>(0);
  control.send(0, protocol::query{});
  EXPECT_EQ(control.expect<protocol::hello>(0).phase, worker_phase::finished);
  EXPECT_EQ(control.expect<protocol::finished>(0).weights_digest, heard.weights_digest);
}

TEST(worker_process, when_control_is_gone_everything_goes_within_the_grace_period) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  values.train.epochs = 100000;
  start_two_ranks(control, values);
  control.wait_committed(0, 10);
  control.kill(1, SIGSTOP);  // cannot leave by itself
  for (const auto rank : {0u, 1u}) {
    control.at(rank).control.reset();
    control.at(rank).lifeline.reset();
  }
  control.close_channel();
  EXPECT_EQ(control.wait_for_zygote(), 0);
  EXPECT_TRUE(test::ends_within(control.at(0).pidfd, 0ms));
  EXPECT_TRUE(test::ends_within(control.at(1).pidfd, 0ms));
}

TEST(worker_process, a_worker_whose_lifeline_ends_leaves_by_itself) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  values.train.epochs = 100000;
  start_two_ranks(control, values);
  control.wait_committed(0, 10);
  control.at(0).lifeline.reset();
  EXPECT_TRUE(test::ends_within(control.at(0).pidfd, 5s));
  EXPECT_EQ(control.expect_from_zygote<protocol::worker_exited>().rank, rank_id{0});
}

TEST(worker_process, the_signals_of_a_terminal_are_left_to_control) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    control.kill(0, signal);
    control.kill(1, signal);
    ::kill(control.zygote_pid(), signal);
  }
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, C05_a_stop_request_ends_all_ranks_at_one_iteration) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  values.train.epochs = 100000;
  start_two_ranks(control, values);
  control.wait_committed(0, 20);
  control.send(1, protocol::request_stop{});
  const auto end = finish(control);
  EXPECT_TRUE(end.stopped);
  EXPECT_GE(end.iteration.value(), 20u);
}

}  // namespace
}  // namespace ftrt
