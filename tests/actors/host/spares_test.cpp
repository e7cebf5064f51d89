// The host table with the real worker program: who is handed out, replaced and ended.

#include <gtest/gtest.h>
#include <signal.h>

#include <actors/host/host_table.hpp>
#include <actors/host/process_signals.hpp>
#include <actors/host/process_state.hpp>
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <ftrt/scenario.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <tests/support/mappings.hpp>
#include <tests/support/processes.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace ftrt::host {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 30s;

scenario small_scenario() {
  scenario values;
  values.cluster.ranks = 2;
  values.model.kind = "mlp";
  values.model.layers = {16, 12, 4};
  values.data.kind = "synthetic";
  values.data.samples = 512;
  values.data.test_samples = 64;
  values.train.global_batch = 16;
  values.train.micro_batch = 4;
  values.supervision.grace_period = 500ms;
  return values;
}

// Remembers what the table says; a test waits for it.
class listener final : public host_listener {
 public:
  void worker_started(rank_id rank, incarnation_id incarnation) override {
    note("started " + name(rank, incarnation));
  }
  void worker_start_failed(rank_id rank, incarnation_id incarnation,
                           const std::string& text) override {
    note("failed " + name(rank, incarnation) + " " + text);
  }
  void worker_exited(rank_id rank, incarnation_id incarnation) override {
    note("exited " + name(rank, incarnation));
  }
  void worker_wrote(rank_id, const std::string&) override {}
  void zygote_replaced(const std::string&) override { note("zygote"); }

  [[nodiscard]] bool hears(const std::string& what) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return heard_.contains(what); });
  }
  // Whoever says this is kept until release(): the table's thread, which then sees no death.
  void hold_at(std::string what) {
    const std::lock_guard lock{mutex_};
    held_at_ = std::move(what);
  }
  void release() {
    hold_at({});
    changed_.notify_all();
  }
  [[nodiscard]] std::multiset<std::string> heard() {
    const std::lock_guard lock{mutex_};
    return heard_;
  }

 private:
  static std::string name(rank_id rank, incarnation_id incarnation) {
    return std::to_string(rank.value()) + "." + std::to_string(incarnation.value());
  }
  void note(std::string what) {
    std::unique_lock lock{mutex_};
    heard_.insert(what);
    changed_.notify_all();
    changed_.wait(lock, [&] { return held_at_ != what; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::string> heard_;
  std::string held_at_;
};

std::string name_of_process(pid_t pid) {
  std::string name;
  std::getline(std::ifstream{"/proc/" + std::to_string(pid) + "/comm"}, name);
  return name;
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

class spares : public ::testing::Test {
 protected:
  void start(std::uint32_t count) {
    host_config config;
    config.worker_program = std::filesystem::path{std::getenv("FTRT_BIN")} / "ftrt-worker";
    config.scenario_toml = to_toml(small_scenario());
    config.ranks = 2;
    config.start_timeout = patience;
    config.grace_period = 500ms;
    config.spares = count;
    auto started = host_table::start(std::move(config));
    ASSERT_TRUE(started) << (started.error().failed ? started.error().failed->describe()
                                                    : "refused");
    table_ = std::move(*started);
    table_->set_listener(&listener_);
  }
  ~spares() override {
    listener_.release();
    if (table_) table_->set_listener(nullptr);
  }

  void spawn(std::uint32_t rank, std::uint32_t incarnation) {
    table_->spawn_worker(rank_id{rank}, incarnation_id{incarnation});
    ASSERT_TRUE(
        listener_.hears("started " + std::to_string(rank) + "." + std::to_string(incarnation)));
  }
  std::shared_ptr<const worker_entry> worker(std::uint32_t rank) {
    return table_->worker(rank_id{rank});
  }
  [[nodiscard]] bool has_spares(std::size_t count) {
    return eventually([&] { return table_->warm_spares().size() == count; });
  }

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

  listener listener_;
  std::unique_ptr<host_table> table_;
};

TEST_F(spares, a_warm_spare_becomes_the_rank_that_is_ordered_and_another_takes_its_place) {
  start(1);
  ASSERT_TRUE(has_spares(1));
  const auto pid = table_->warm_spares().front();
  EXPECT_EQ(table_->alive(), 0U) << "a spare is no rank";
  spawn(1, 1);
  EXPECT_EQ(worker(1)->pid, pid);
  EXPECT_TRUE(worker(1)->spare);
  EXPECT_TRUE(eventually([&] { return name_of_process(pid) == "ftrt-rank-1"; }));
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

TEST_F(spares, one_that_has_just_died_is_not_handed_out_though_its_keeper_holds_the_lifeline) {
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

TEST_F(spares, a_rank_that_has_just_died_is_no_longer_sent_anything) {
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

TEST_F(spares, a_dead_ones_memory_is_held_for_as_long_as_a_ranks) {
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
TEST_F(spares, what_nobody_needs_of_a_dead_rank_is_given_back_a_while_later) {
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
  EXPECT_EQ(name_of_process(rank), "ftrt-rank-0");
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
  for (const auto pid : pids) EXPECT_NE(::kill(pid, 0), 0) << name_of_process(pid);
}

TEST_F(spares, the_end_takes_every_keeper_along_also_those_that_are_stopped) {
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
