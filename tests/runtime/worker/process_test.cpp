#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "tests/runtime/worker/mini_control.hpp"

// The real worker program, driven through its sockets, with real signals.
namespace ftrt {
namespace {

using protocol::state_role;
using protocol::worker_phase;
using testing::mini_control;
using testing::small_scenario;
using namespace std::chrono_literals;

std::filesystem::path worker_program() {
  const char* folder = std::getenv("FTRT_BIN");
  if (folder == nullptr) throw std::runtime_error("FTRT_BIN is not set; run this through ctest");
  return std::filesystem::path{folder} / "ftrt-worker";
}

const std::vector<mini_control::part> both_initial{{0, state_role::initial, 0, 0},
                                                   {1, state_role::initial, 0, 0}};

void start_two_ranks(mini_control& control, const scenario& values) {
  control.start(values);
  control.fork(0);
  control.fork(1);
  control.join_and_train(1, both_initial);
}

// Both ranks' finish, which must agree.
protocol::finished finish(mini_control& control) {
  const auto first = control.expect<protocol::finished>(0);
  const auto second = control.expect<protocol::finished>(1);
  EXPECT_EQ(first.weights_digest, second.weights_digest);
  EXPECT_EQ(first.iteration, second.iteration);
  return first;
}

void dismiss(mini_control& control, std::initializer_list<std::uint32_t> ranks) {
  for (const auto rank : ranks) {
    control.send(rank, protocol::exit_worker{});
    EXPECT_TRUE(mini_control::ends_within(control.at(rank).pidfd, 10s)) << "rank " << rank;
  }
}

const std::string& fault_free_digest() {
  static const std::string digest = [] {
    mini_control control{worker_program()};
    start_two_ranks(control, small_scenario());
    return finish(control).weights_digest;
  }();
  return digest;
}

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
  control.start(small_scenario());
  control.fork(0);
  control.fork(1);
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
  EXPECT_TRUE(mini_control::ends_within(control.at(0).pidfd, 0ms));
  EXPECT_TRUE(mini_control::ends_within(control.at(1).pidfd, 0ms));
}

TEST(worker_process, a_worker_whose_lifeline_ends_leaves_by_itself) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  values.train.epochs = 100000;
  start_two_ranks(control, values);
  control.wait_committed(0, 10);
  control.at(0).lifeline.reset();
  EXPECT_TRUE(mini_control::ends_within(control.at(0).pidfd, 5s));
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
  control.start(small_scenario());
  control.fork(0);
  control.fork(1);
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
  control.start(small_scenario());
  control.fork(0);
  control.fork(1);
  control.send_joins(1, 2, {{0, state_role::initial, 0, 0}});
  control.send(0, protocol::query{});
  EXPECT_EQ(control.expect<protocol::hello>(0).phase, worker_phase::joining);
  control.send(0, protocol::revoke{generation_id{1}});
  EXPECT_EQ(control.expect<protocol::join_failed>(0).generation, generation_id{1});
  EXPECT_EQ(control.expect<protocol::parked>(0).generation, generation_id{1});
  control.join_and_train(2, both_initial);
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

TEST(worker_process, a_wrong_fork_request_is_answered_and_the_zygote_lives) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  control.send_to_zygote(protocol::fork_worker{rank_id{0}, incarnation_id{1}}, {STDERR_FILENO});
  EXPECT_NE(control.expect_from_zygote<protocol::fork_failed>().text.find("7 descriptors"),
            std::string::npos);
  control.send_to_zygote(protocol::fork_worker{rank_id{7}, incarnation_id{1}});
  EXPECT_EQ(control.expect_from_zygote<protocol::fork_failed>().rank, rank_id{7});
  control.fork(0);
}

TEST(worker_process, C31_data_that_is_not_there_is_refused_by_name_before_any_rank_starts) {
  mini_control control{worker_program()};
  auto values = small_scenario();
  values.data = scenario{}.data;
  values.data.kind = "mnist";
  values.data.path = "/nowhere/at/all";
  values.model.layers = {784, 16, 10};
  const auto answer = control.configure(values);
  const auto* refused = std::get_if<protocol::zygote_refused>(&answer);
  ASSERT_NE(refused, nullptr);
  ASSERT_FALSE(refused->diagnostics.empty());
  EXPECT_NE(refused->diagnostics[0].describe().find("/nowhere/at/all"), std::string::npos)
      << refused->diagnostics[0].describe();
  EXPECT_EQ(control.wait_for_zygote(), 0);
}

TEST(worker_process, a_check_is_answered_and_then_the_zygote_leaves) {
  mini_control control{worker_program()};
  const auto answer = control.configure(small_scenario(), true);
  const auto* ready = std::get_if<protocol::zygote_ready>(&answer);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->train_samples, 512u);
  EXPECT_EQ(ready->iterations_per_epoch, 32u);
  EXPECT_EQ(control.wait_for_zygote(), 0);
}

TEST(worker_process, without_the_thread_variables_it_starts_itself_again_with_them) {
  mini_control control{worker_program(), false};
  start_two_ranks(control, small_scenario());
  std::ifstream file{"/proc/" + std::to_string(control.zygote_pid()) + "/environ"};
  const std::string variables{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_NE(variables.find("OMP_NUM_THREADS=1"), std::string::npos);
  EXPECT_NE(variables.find("MKL_NUM_THREADS=1"), std::string::npos);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(worker_process, a_worker_carries_its_rank_in_its_name) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto pid = std::to_string(control.fork(1).pid);
  std::string name;
  std::getline(std::ifstream{"/proc/" + pid + "/comm"}, name);
  EXPECT_EQ(name, "ftrt-rank-1");
  std::getline(std::ifstream{"/proc/" + pid + "/cmdline"}, name, '\0');
  EXPECT_EQ(name, "ftrt-rank-1 (incarnation 1)");
}

std::set<std::string> sockets_of(int pid) {
  std::set<std::string> sockets;
  for (const auto& entry :
       std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/fd"}) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) sockets.insert(target);
  }
  return sockets;
}

TEST(worker_process, a_worker_holds_its_own_two_sockets_and_nobody_elses) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  control.fork(0);
  control.fork(1);
  const auto first = sockets_of(control.at(0).pid);
  const auto second = sockets_of(control.at(1).pid);
  auto all = sockets_of(control.zygote_pid());
  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(second.size(), 2u);
  EXPECT_EQ(all.size(), 1u);
  all.insert(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all.size(), 5u);
}

TEST(worker_process, a_worker_writes_no_core_file_unless_asked_to) {
  const auto core_limit = [](bool core_dumps) {
    mini_control control{worker_program()};
    auto values = small_scenario();
    values.supervision.core_dumps = core_dumps;
    control.start(values);
    rlimit limit{};
    ::prlimit(control.fork(0).pid, RLIMIT_CORE, nullptr, &limit);
    return limit.rlim_cur;
  };
  rlimit own{};
  ::getrlimit(RLIMIT_CORE, &own);
  EXPECT_EQ(core_limit(false), 0u);
  EXPECT_EQ(core_limit(true), own.rlim_cur);
}

// ---- a user's own worker program, with models that misbehave -----------------------------------

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
