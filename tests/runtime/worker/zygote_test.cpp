#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <tests/runtime/worker/worker_rig.hpp>
#include <tests/support/processes.hpp>

// What the zygote answers, and what it makes of a child.
namespace ftrt {
namespace {

using namespace testing;
using protocol::state_role;
using protocol::worker_phase;
using namespace std::chrono_literals;

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
  const auto pid = control.fork(1).pid;
  EXPECT_EQ(test::proc_line(pid, "comm"), "ftrt-rank-1");
  std::string name;
  std::getline(std::ifstream{"/proc/" + std::to_string(pid) + "/cmdline"}, name, '\0');
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
  fork_two_ranks(control, small_scenario());
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

// Of one rank's memory, whose process is the only one that the zygote has forked. It stands still,
// so that it cannot leave before a test has looked at it.
class stopped_keeper {
 public:
  explicit stopped_keeper(const mini_control& control) {
    const auto found = test::children_named(control.zygote_pid(), "ftrt-keeper");
    EXPECT_EQ(found.size(), 1u);
    if (found.empty()) return;
    pid_ = found.front();
    pidfd_ = test::open_pidfd(pid_);
    ::kill(pid_, SIGSTOP);
  }
  ~stopped_keeper() {
    if (!test::ends_within(pidfd_, 0ms) && pid_ > 0) ::kill(pid_, SIGKILL);
  }
  stopped_keeper(const stopped_keeper&) = delete;
  stopped_keeper& operator=(const stopped_keeper&) = delete;

  [[nodiscard]] std::size_t resident_bytes() const { return test::resident_bytes(pid_); }
  [[nodiscard]] bool ends() const { return test::ends_within(pidfd_, mini_control::patience); }
  void go_on() const { ::kill(pid_, SIGCONT); }

 private:
  int pid_ = 0;
  unique_fd pidfd_;
};

TEST(worker_process, a_killed_rank_is_dead_while_its_keeper_still_holds_its_memory) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  const auto pid = control.fork(0).pid;
  const stopped_keeper keeper{control};
  const auto resident = test::resident_bytes(pid);
  control.kill(0, SIGKILL);
  EXPECT_TRUE(test::ends_within(control.at(0).pidfd, mini_control::patience));
  EXPECT_GT(keeper.resident_bytes(), resident / 2);
  EXPECT_GT(resident, std::size_t{10} << 20) << "LibTorch alone has more";
  keeper.go_on();
  EXPECT_TRUE(keeper.ends()) << "by itself, as nobody has ended the lifeline";
}

TEST(worker_process, a_keeper_that_is_stopped_does_not_outlive_its_zygote) {
  mini_control control{worker_program()};
  control.start(small_scenario());
  control.fork(0);
  const stopped_keeper keeper{control};
  control.close_channel();
  EXPECT_EQ(control.wait_for_zygote(), 0);
  EXPECT_TRUE(keeper.ends());
}

}  // namespace
}  // namespace ftrt
