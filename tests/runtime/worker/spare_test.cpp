#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tests/runtime/worker/worker_rig.hpp>
#include <tests/support/descriptors.hpp>
#include <tests/support/eventually.hpp>
#include <tests/support/mappings.hpp>
#include <tests/support/processes.hpp>

// What a spare does before and after it becomes a rank.
namespace ftrt {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using test::eventually;

void tell_sources(const worker_end& spare, const std::vector<int>& descriptors) {
  const protocol::expect_sources request{static_cast<std::uint32_t>(descriptors.size())};
  ASSERT_TRUE(protocol::send_packet(spare.lifeline.get(), request, descriptors));
}

// Whether the process has so many memories of this size mapped that are others' state, all pages
// present.
bool has_sources(int pid, std::size_t count, std::size_t size) {
  const auto all = test::foreign_mappings(pid, "state");
  return all.size() == count &&
         std::ranges::all_of(all, [&](const auto& each) { return each.second >= size; });
}

constexpr auto nothing = [] {};

// Rank 1 dies and the spare takes its place, with the state of rank 0.
void replace_rank_1(mini_control& control, const std::function<void()>& before_assign = nothing,
                    const std::function<void()>& before_join = nothing) {
  control.kill(1, SIGKILL);
  EXPECT_EQ(control.expect<protocol::peer_lost>(0).lost, std::vector{rank_id{1}});
  control.send(0, protocol::revoke{generation_id{1}});
  const auto parked = control.expect<protocol::parked>(0);
  before_assign();
  control.assign_spare(1);
  before_join();
  const auto role =
      parked.decided ? protocol::state_role::apply_prepared : protocol::state_role::keep;
  const auto from = parked.decided ? parked.prepared.value() : parked.committed.value();
  control.join_and_train(2, {{0, role, from, 0}, {1, protocol::state_role::receive, from, 0}});
}

// How much of others' state is present in the process.
std::size_t present_bytes(int pid) {
  std::size_t sum = 0;
  for (const auto& [inode, bytes] : test::foreign_mappings(pid, "state")) sum += bytes;
  return sum;
}

TEST(spare_worker, a_spare_maps_its_sources_ahead_joins_from_them_and_gives_them_back) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto& spare = control.fork_spare();
  const int pid = spare.pid;
  tell_sources(spare, {control.at(0).state.fd().get(), control.at(1).state.fd().get()});
  ASSERT_TRUE(eventually([&] { return has_sources(pid, 2, control.at(0).state.size()); }));
  control.wait_committed(0, 100);
  replace_rank_1(control);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
  EXPECT_TRUE(eventually([&] { return has_sources(pid, 0, 0); })) << "of a rank that is dead, too";
  dismiss(control, {0, 1});
}

// The join brings the same file, and nobody could read that.
TEST(spare_worker, a_spare_copies_through_the_mapping_that_it_made_ahead) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto& spare = control.fork_spare();
  const auto& source = control.at(0).state;
  tell_sources(spare, {source.fd().get()});
  ASSERT_TRUE(eventually([&] { return has_sources(spare.pid, 1, source.size()); }));
  control.wait_committed(0, 100);
  replace_rank_1(control, nothing, [&] {
    const auto itself = "/proc/self/fd/" + std::to_string(source.fd().get());
    ASSERT_TRUE(test::reopen(source.fd(), itself, O_WRONLY));
  });
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(spare_worker, a_spare_that_is_assigned_in_the_midst_of_touching_joins_at_once) {
  auto values = small_scenario();
  values.model.layers = {16, 3500, 3500, 4};  // 100 MB, for which it takes a tenth of a second
  values.train.epochs = 1;
  mini_control control{worker_program()};
  start_two_ranks(control, values);
  const auto& spare = control.fork_spare();
  const int pid = spare.pid;
  control.wait_committed(0, 1);
  const auto touch = [&] {
    tell_sources(spare, {control.at(0).state.fd().get(), control.at(1).state.fd().get()});
    ASSERT_TRUE(eventually([&] { return present_bytes(pid) > 0; })) << "it has begun";
  };
  replace_rank_1(control, touch, [&] {
    EXPECT_LT(present_bytes(pid), 2 * control.at(0).state.size()) << "nobody waited for its end";
  });
  finish(control);  // with one digest
  EXPECT_TRUE(eventually([&] { return has_sources(pid, 0, 0); }));
  dismiss(control, {0, 1});
}

TEST(spare_worker, a_spare_whose_sources_are_gone_joins_from_another) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto& spare = control.fork_spare();
  const int pid = spare.pid;
  {
    const auto size = control.at(0).state.size();
    const auto gone = storage::shared_memory::create("state", size).value();
    tell_sources(spare, {gone.fd().get()});
    ASSERT_TRUE(eventually([&] { return has_sources(pid, 1, size); }));
  }
  control.wait_committed(0, 100);
  replace_rank_1(control);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
  EXPECT_TRUE(eventually([&] { return has_sources(pid, 0, 0); }));
  dismiss(control, {0, 1});
}

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(spare_worker, sources_that_do_not_fit_are_refused_and_the_spare_waits_on) {
  ::testing::internal::CaptureStderr();  // the zygote's and its workers', too
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const auto& spare = control.fork_spare();
  const auto& state = control.at(0).state;
  tell_sources(spare, {state.fd().get()});
  const protocol::expect_sources two{2};
  ASSERT_TRUE(protocol::send_packet(spare.lifeline.get(), two, std::vector{state.fd().get()}));
  const auto small = storage::shared_memory::create("state", state.size() / 2).value();
  tell_sources(spare, {state.fd().get(), small.fd().get()});
  const unique_fd unsealed{::memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(state.size())), 0);
  tell_sources(spare, {unsealed.get()});
  const auto& other = control.at(1).state;
  tell_sources(spare, {other.fd().get(), state.fd().get()});  // after all these
  EXPECT_TRUE(eventually([&] { return has_sources(spare.pid, 2, state.size()); }));
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of("refused: expect_sources: ", said), 3U) << said;
  EXPECT_EQ(count_of("expected 2 descriptors, found 1", said), 1U) << said;
  replace_rank_1(control);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(spare_worker, a_spare_is_assigned_joins_and_the_weights_match) {
  mini_control control{worker_program()};
  start_two_ranks(control, small_scenario());
  const int pid = control.fork_spare().pid;
  EXPECT_EQ(test::proc_line(pid, "comm"), "ftrt-spare");
  control.wait_committed(0, 100);
  control.kill(1, SIGKILL);
  EXPECT_EQ(control.expect<protocol::peer_lost>(0).lost, std::vector{rank_id{1}});
  control.send(0, protocol::revoke{generation_id{1}});
  const auto parked = control.expect<protocol::parked>(0);
  EXPECT_EQ(control.assign_spare(1).pid, pid);
  EXPECT_EQ(test::proc_line(pid, "comm"), "ftrt-rank-1");
  const auto role =
      parked.decided ? protocol::state_role::apply_prepared : protocol::state_role::keep;
  const auto from = parked.decided ? parked.prepared.value() : parked.committed.value();
  control.join_and_train(2, {{0, role, from, 0}, {1, protocol::state_role::receive, from, 0}});
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
  dismiss(control, {0, 1});
}

TEST(spare_worker, a_run_may_begin_with_a_spare_and_its_warm_up_leaves_no_trace) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  control.fork(0);
  control.fork_spare();
  control.assign_spare(1);
  control.join_and_train(1, both_initial);
  EXPECT_EQ(finish(control).weights_digest, fault_free_digest());
}

TEST(spare_worker, a_ready_spare_has_touched_all_its_memory) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto& spare = control.fork_spare();
  for (const auto& [name, memory] :
       {std::pair{"progress", &spare.progress}, std::pair{"snapshots", &spare.snapshots},
        std::pair{"bucket", &spare.bucket}, std::pair{"state", &spare.state}}) {
    std::size_t present = 0;
    for (const auto& each : test::mapped_files(spare.pid)) {
      if (each.path == std::string{"/memfd:"} + name) present += each.present_bytes;
    }
    EXPECT_GE(present, memory->size() / 4096 * 4096) << name;
  }
}

TEST(spare_worker, a_spare_that_dies_is_reported_by_its_number) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto& spare = control.fork_spare(17);
  ::syscall(SYS_pidfd_send_signal, spare.pidfd.get(), SIGKILL, nullptr, 0);
  const auto gone = control.expect_from_zygote<protocol::worker_exited>();
  EXPECT_EQ(gone.spare, 17u);
  EXPECT_EQ(gone.pid, spare.pid);
  EXPECT_EQ(gone.wait_status, SIGKILL);
}

TEST(spare_worker, a_spare_leaves_when_its_lifeline_ends) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  auto& spare = control.fork_spare();
  spare.lifeline.reset();
  EXPECT_TRUE(test::ends_within(spare.pidfd, 10s));
  EXPECT_EQ(control.expect_from_zygote<protocol::worker_exited>().wait_status, 0);
}

TEST(spare_worker, a_stopped_spare_ends_with_the_zygotes_channel) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto& spare = control.fork_spare();
  ::syscall(SYS_pidfd_send_signal, spare.pidfd.get(), SIGSTOP, nullptr, 0);
  control.close_channel();
  EXPECT_TRUE(test::ends_within(spare.pidfd, 10s)) << "killed after the grace period";
  EXPECT_EQ(control.wait_for_zygote(), 0);
}

TEST(spare_worker, what_comes_before_its_rank_is_refused_and_it_waits_on) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto& spare = control.fork_spare();
  protocol::join too_early;
  too_early.world_size = 2;
  ASSERT_TRUE(protocol::send_packet(spare.lifeline.get(), too_early));
  control.assign_spare(1);
  control.fork(0);
  control.join_and_train(1, both_initial);
  control.wait_committed(1, 10);
}

}  // namespace
}  // namespace ftrt
