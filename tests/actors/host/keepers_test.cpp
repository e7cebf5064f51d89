// The host table with the real worker program: dead workers whose memory is held a while longer
// (ADR 0010), by a keeper that holds the other end of the lifeline as well.

#include <signal.h>

#include <tests/actors/host/live_table.hpp>
#include <tests/support/mappings.hpp>
#include <tests/support/processes.hpp>
#include <vector>

namespace ftrt::host {
namespace {

using namespace std::chrono_literals;
using test::eventually;

class dead_workers : public live_table {
 protected:
  void kill_rank(std::uint32_t rank) {
    const auto dead = worker(rank);
    ::kill(dead->pid, SIGKILL);
    ASSERT_TRUE(eventually([&] { return dead->dead.load(); }));
  }
  // Until the zygote ends. There are so many, or will be in a moment.
  std::vector<pid_t> stop_keepers(std::size_t count) {
    std::vector<pid_t> keepers;
    EXPECT_TRUE(eventually([&] {
      keepers = test::children_named(table_->zygote_pid(), "ftrt-keeper");
      return keepers.size() == count;
    }));
    for (const auto pid : keepers) ::kill(pid, SIGSTOP);
    return keepers;
  }
  // The process, one of so many, is dead, but its keeper is not and the table has not looked.
  void kill_behind_the_tables_back(pid_t pid, std::size_t processes) {
    stop_keepers(processes);
    const auto pidfd = test::open_pidfd(pid);
    ::kill(pid, SIGKILL);
    ASSERT_TRUE(test::ends_within(pidfd, patience));
  }
};

TEST_F(dead_workers, one_that_has_just_died_is_not_handed_out_though_its_keeper_holds_the_lifeline) {
  start(2);
  ASSERT_TRUE(has_spares(2));
  listener_.hold_at("started 0.1");
  spawn(0, 1);
  ASSERT_EQ(table_->warm_spares().size(), 1U);
  kill_behind_the_tables_back(table_->warm_spares().front(), 2);
  ASSERT_EQ(table_->warm_spares().size(), 1U) << "as far as the table knows";
  table_->spawn_worker(rank_id{1}, incarnation_id{1});
  ASSERT_TRUE(worker(1));
  EXPECT_FALSE(worker(1)->spare);
  listener_.release();
  EXPECT_TRUE(listener_.hears("started 1.1"));
}

TEST_F(dead_workers, a_rank_that_has_just_died_is_no_longer_sent_anything) {
  start(0);
  listener_.hold_at("started 0.1");
  spawn(0, 1);
  protocol::join alone;
  alone.generation = generation_id{1};
  alone.branch = branch_id{1};
  alone.world_size = 1;
  alone.role = protocol::state_role::initial;
  const std::vector joins{alone};
  ASSERT_TRUE(table_->open_control_socket(rank_id{0}, incarnation_id{1}));
  ASSERT_TRUE(table_->open_control_socket(rank_id{0}, incarnation_id{1})) << "by the lifeline";
  ASSERT_TRUE(table_->send_joins(joins));
  kill_behind_the_tables_back(worker(0)->pid, 1);
  ASSERT_FALSE(worker(0)->dead) << "as far as the table knows";
  EXPECT_FALSE(table_->open_control_socket(rank_id{0}, incarnation_id{1}));
  EXPECT_FALSE(table_->send_joins(joins));
}

TEST_F(dead_workers, a_dead_ones_memory_is_held_for_as_long_as_a_ranks) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  const auto keepers = test::children_named(table_->zygote_pid(), "ftrt-keeper");
  ASSERT_EQ(keepers.size(), 1U);
  const auto keeper = test::open_pidfd(keepers.front());
  const auto killed = std::chrono::steady_clock::now();
  ::kill(table_->warm_spares().front(), SIGKILL);
  EXPECT_TRUE(test::ends_within(keeper, patience));
  EXPECT_GE(std::chrono::steady_clock::now() - killed, 200ms);
}

// That is, when its second successor is there, and after a recovery's time.
TEST_F(dead_workers, what_nobody_needs_of_a_dead_rank_is_given_back_a_while_later) {
  start(0);
  spawn(1, 1);
  auto first = worker(1);
  const int lifeline = first->lifeline.get();
  const auto its_inode = test::inode_of(lifeline);
  kill_rank(1);
  spawn(1, 2);
  kill_rank(1);
  EXPECT_TRUE(table_->worker(rank_id{1}, incarnation_id{1}));
  const auto ordered = std::chrono::steady_clock::now();
  spawn(1, 3);
  EXPECT_FALSE(table_->worker(rank_id{1}, incarnation_id{1}));
  EXPECT_TRUE(eventually([&] { return test::inode_of(lifeline) != its_inode; }))
      << "though somebody still reads a memory of it";
  EXPECT_GE(std::chrono::steady_clock::now() - ordered, 200ms);
  const std::weak_ptr memories{std::exchange(first, nullptr)};
  EXPECT_TRUE(eventually([&] { return memories.expired(); }));
}

TEST_F(dead_workers, the_end_takes_every_keeper_along_also_those_that_are_stopped) {
  start(1);
  spawn(0, 1);
  ASSERT_TRUE(has_spares(1));
  const auto keepers = stop_keepers(2);
  std::vector<unique_fd> pidfds;
  for (const auto pid : keepers) pidfds.push_back(test::open_pidfd(pid));
  ::kill(table_->warm_spares().front(), SIGKILL);
  table_->end(0ms);
  for (const auto& pidfd : pidfds) EXPECT_TRUE(test::ends_within(pidfd, 0ms));
}

}  // namespace
}  // namespace ftrt::host
