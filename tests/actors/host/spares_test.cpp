// The host table with the real worker program: who is handed out, replaced and ended.

#include <signal.h>

#include <actors/host/process_state.hpp>
#include <algorithm>
#include <tests/actors/host/live_table.hpp>
#include <tests/support/mappings.hpp>
#include <tests/support/processes.hpp>
#include <vector>

namespace ftrt::host {
namespace {

using namespace std::chrono_literals;
using test::eventually;

class spares : public live_table {
 protected:
  // Whether every warm spare has mapped the state of these, and of nobody else.
  [[nodiscard]] bool expects_exactly(
      std::vector<std::shared_ptr<const worker_entry>> workers) const {
    std::set<ino_t> expected;
    for (const auto& each : workers) expected.insert(test::inode_of(each->state.fd().get()));
    const auto pids = table_->warm_spares();
    return !pids.empty() && std::ranges::all_of(pids, [&](pid_t pid) {
      std::set<ino_t> found;
      for (const auto& [inode, _] : test::foreign_mappings(pid, "ftrt-state")) found.insert(inode);
      return found == expected;
    });
  }
};

TEST_F(spares, a_warm_spare_becomes_the_rank_that_is_ordered_and_another_takes_its_place) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  const auto pid = table_->warm_spares().front();
  EXPECT_EQ(table_->alive(), 0U) << "a spare is no rank";
  spawn(1, 1);
  EXPECT_EQ(worker(1)->pid, pid);
  EXPECT_TRUE(worker(1)->spare);
  EXPECT_TRUE(eventually([&] { return test::proc_line(pid, "comm") == "ftrt-rank-1"; }));
  EXPECT_EQ(table_->alive(), 1U);
  ASSERT_TRUE(has_spares(1));
  EXPECT_NE(table_->warm_spares().front(), pid);
}

TEST_F(spares, without_a_spare_a_rank_is_forked) {
  start(0);
  spawn(0, 1);
  EXPECT_FALSE(worker(0)->spare);
  EXPECT_TRUE(table_->warm_spares().empty());
}

TEST_F(spares, a_spare_that_dies_is_replaced_and_nobody_is_told) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  const auto pid = table_->warm_spares().front();
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto now = table_->warm_spares();
    return now.size() == 1 && now.front() != pid;
  }));
  EXPECT_TRUE(listener_.heard().empty());
}

TEST_F(spares, C06_a_spare_that_is_stopped_is_given_up_and_the_rank_forked) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  const auto pid = table_->warm_spares().front();
  ::kill(pid, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(pid); }));
  spawn(1, 1);
  EXPECT_NE(worker(1)->pid, pid);
  EXPECT_TRUE(has_spares(1)) << "another one";
  EXPECT_NE(table_->warm_spares().front(), pid);
}

TEST_F(spares, a_rank_that_was_a_spare_dies_under_its_own_name) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  spawn(1, 3);
  ASSERT_TRUE(worker(1)->spare);
  ::kill(worker(1)->pid, SIGKILL);
  ASSERT_TRUE(listener_.hears("exited 1.3"));
  EXPECT_EQ(worker(1)->exit_cause, "killed by signal 9 (SIGKILL)");
}

TEST_F(spares, a_dead_zygote_is_replaced_while_ranks_and_spare_live_on) {
  start(1);
  spawn(0, 1);
  ASSERT_TRUE(has_spares(1));
  const auto spare = table_->warm_spares().front();
  const auto rank = worker(0)->pid.load();
  ::kill(table_->zygote_pid(), SIGKILL);
  ASSERT_TRUE(listener_.hears("zygote"));
  spawn(1, 1);
  EXPECT_EQ(worker(1)->pid, spare) << "the spare outlived its zygote";
  ASSERT_TRUE(has_spares(1)) << "forked from the new zygote";
  EXPECT_EQ(test::proc_line(rank, "comm"), "ftrt-rank-0");
  ::kill(rank, SIGKILL);
  ASSERT_TRUE(listener_.hears("exited 0.1")) << "though nobody reaps for it";
  EXPECT_TRUE(worker(0)->dead);
}

TEST_F(spares, a_ready_spare_is_told_whose_state_it_may_have_to_copy) {
  start(1);
  spawn(0, 1);
  spawn(1, 1);
  ASSERT_TRUE(eventually([&] { return expects_exactly({worker(0), worker(1)}); }));
}

TEST_F(spares, a_spare_is_told_again_when_a_rank_was_replaced) {
  start(2);
  ASSERT_TRUE(has_spares(2));
  spawn(0, 1);
  spawn(1, 1);
  ASSERT_TRUE(has_spares(2));
  ASSERT_TRUE(eventually([&] { return expects_exactly({worker(0), worker(1)}); }));
  const auto dead = worker(1);
  ::kill(dead->pid, SIGKILL);
  ASSERT_TRUE(listener_.hears("exited 1.1"));
  spawn(1, 2);
  ASSERT_TRUE(has_spares(2));
  EXPECT_TRUE(eventually([&] {
    return expects_exactly({worker(0), worker(1)});
  })) << "the one that waited, and the one that is new";
  EXPECT_EQ(worker(1)->incarnation, incarnation_id{2});
}

TEST_F(spares, the_end_takes_every_spare_along) {
  start(2);
  spawn(0, 1);
  ASSERT_TRUE(has_spares(2));
  auto pids = table_->warm_spares();
  pids.push_back(worker(0)->pid);
  table_->end(0ms);
  for (const auto pid : pids) EXPECT_NE(::kill(pid, 0), 0) << test::proc_line(pid, "comm");
}

}  // namespace
}  // namespace ftrt::host
