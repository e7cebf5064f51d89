// The process that holds a worker's memory for a while after its death. The child of each test
// stands for the worker; the keeper is a child of the test itself.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <runtime/worker/children.hpp>
#include <runtime/worker/memory_keeper.hpp>
#include <schemas/unique_fd.hpp>
#include <string>
#include <tests/support/eventually.hpp>
#include <tests/support/processes.hpp>
#include <vector>

namespace ftrt::worker {
namespace {

using test::eventually;

constexpr std::size_t memory_bytes = std::size_t{64} << 20;
constexpr std::chrono::minutes for_ever{10};

// As an old sandbox does it for the calling process and all that it starts.
void refuse_close_range() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(steps)), steps};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// With so much memory of its own, and a keeper.
class kept_process {
 public:
  explicit kept_process(
      std::chrono::milliseconds linger, void (*prepare)() = [] {}) {
    std::array<int, 2> said{};
    std::array<int, 2> line{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, said.data()), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(line[0]);
      ::close(said[0]);
      prepare();
      live(said[1], line[1], linger);
    }
    ::close(said[1]);
    ::close(line[1]);
    said_ = unique_fd{said[0]};
    lifeline_ = unique_fd{line[0]};
    EXPECT_EQ(::read(said_.get(), &keeper_, sizeof keeper_), static_cast<ssize_t>(sizeof keeper_));
  }
  ~kept_process() {
    for (const int pid : {pid_, keeper_}) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  kept_process(const kept_process&) = delete;
  kept_process& operator=(const kept_process&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  [[nodiscard]] int keeper() const { return keeper_; }
  // The process's errno, which was 0 before it started its keeper.
  [[nodiscard]] int error_number() const {
    int found = -1;
    EXPECT_EQ(::write(said_.get(), &found, 1), 1);
    EXPECT_EQ(::read(said_.get(), &found, sizeof found), static_cast<ssize_t>(sizeof found));
    return found;
  }
  [[nodiscard]] bool keeper_comes_to_hold_two_descriptors() const {
    return eventually([&] {
      std::error_code failed;
      const std::filesystem::directory_iterator all{"/proc/" + std::to_string(keeper_) + "/fd",
                                                    failed};
      return !failed && std::distance(begin(all), end(all)) == 2;
    });
  }
  void end_lifeline() { lifeline_.reset(); }
  void kill() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, 0), &status, 0) > 0 && WIFSIGNALED(status), true);
  }
  // The keeper's exit code, once it has left.
  int wait_for_keeper() {
    int status = 0;
    EXPECT_GT(::waitpid(std::exchange(keeper_, 0), &status, 0), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] bool keeper_lives() const { return ::waitpid(keeper_, nullptr, WNOHANG) == 0; }
  [[nodiscard]] bool process_lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  // Whether nobody holds the descriptor any more that only the process had.
  [[nodiscard]] bool has_closed_its_descriptors() const {
    pollfd end{said_.get(), POLLIN, 0};
    return ::poll(&end, 1, 10000) == 1 && (end.revents & POLLHUP) != 0;
  }

 private:
  [[noreturn]] static void live(int say, int lifeline, std::chrono::milliseconds linger) {
    const std::vector<char> memory(memory_bytes, 1);
    errno = 0;
    const auto keeper = start_memory_keeper(lifeline, linger);
    const int pid = keeper ? *keeper : -1;
    [[maybe_unused]] const auto written = ::write(say, &pid, sizeof pid);
    char asked = 0;
    while (memory.front() == 1 && ::read(say, &asked, 1) == 1) {
      const int found = errno;
      [[maybe_unused]] const auto answered = ::write(say, &found, sizeof found);
    }
    ::_exit(0);
  }

  int pid_ = 0;
  int keeper_ = 0;
  unique_fd said_;
  unique_fd lifeline_;
};

TEST(memory_keeper, holds_the_memory_of_a_dead_process_until_the_lifeline_ends) {
  kept_process process{for_ever};
  process.kill();
  EXPECT_TRUE(process.keeper_lives());
  EXPECT_GE(test::resident_bytes(process.keeper()), memory_bytes);
  process.end_lifeline();
  EXPECT_EQ(process.wait_for_keeper(), 0);
}

TEST(memory_keeper, leaves_by_itself_a_while_after_the_process) {
  kept_process process{std::chrono::milliseconds{50}};
  EXPECT_TRUE(process.keeper_lives());
  const auto killed = std::chrono::steady_clock::now();
  process.kill();
  EXPECT_EQ(process.wait_for_keeper(), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - killed, std::chrono::milliseconds{50});
}

TEST(memory_keeper, leaves_with_the_lifeline_and_leaves_the_process_alone) {
  kept_process process{for_ever};
  process.end_lifeline();
  EXPECT_EQ(process.wait_for_keeper(), 0);
  EXPECT_TRUE(process.process_lives());
}

TEST(memory_keeper, holds_no_descriptor_of_the_process) {
  kept_process process{for_ever};
  process.kill();
  EXPECT_TRUE(process.has_closed_its_descriptors());
  EXPECT_TRUE(process.keeper_lives());
}

TEST(memory_keeper, holds_none_where_a_sandbox_refuses_to_close_many_at_once) {
  kept_process process{for_ever, refuse_close_range};
  EXPECT_TRUE(process.keeper_comes_to_hold_two_descriptors());
  process.kill();
  EXPECT_TRUE(process.has_closed_its_descriptors());
}

TEST(memory_keeper, leaves_the_process_its_errno_whatever_the_kernel_refuses) {
  kept_process process{for_ever, refuse_close_range};
  EXPECT_TRUE(process.keeper_comes_to_hold_two_descriptors());
  EXPECT_EQ(process.error_number(), 0);
}

TEST(memory_keeper, has_its_name_from_the_first_moment_on_and_the_process_has_its_own) {
  kept_process process{for_ever};
  EXPECT_EQ(test::proc_line(process.keeper(), "comm"), keeper_name);
  EXPECT_EQ(test::proc_line(process.pid(), "comm"), test::proc_line(::getpid(), "comm"));
}

TEST(memory_keeper, is_the_first_that_the_oom_killer_takes_once_the_process_is_dead) {
  kept_process process{for_ever};
  EXPECT_TRUE(process.keeper_comes_to_hold_two_descriptors());
  EXPECT_EQ(test::proc_line(process.keeper(), "oom_score_adj"),
            test::proc_line(::getpid(), "oom_score_adj"));
  process.kill();
  EXPECT_TRUE(
      eventually([&] { return test::proc_line(process.keeper(), "oom_score_adj") == "1000"; }));
  EXPECT_TRUE(process.keeper_lives());
}

TEST(memory_keeper, goes_on_where_it_was_when_it_was_stopped) {
  kept_process process{for_ever};
  for (const bool alive : {true, false}) {
    if (!alive) process.kill();
    ::kill(process.keeper(), SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(process.keeper(), &status, WUNTRACED), process.keeper());
    ASSERT_TRUE(WIFSTOPPED(status));
    ::kill(process.keeper(), SIGCONT);
    EXPECT_TRUE(process.keeper_lives());
  }
  process.end_lifeline();
  EXPECT_EQ(process.wait_for_keeper(), 0);
}

TEST(memory_keeper, does_not_hear_the_signals_of_a_terminal) {
  kept_process process{for_ever};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::kill(process.keeper(), signal);
  process.kill();
  EXPECT_TRUE(process.keeper_lives());
  process.end_lifeline();
  EXPECT_EQ(process.wait_for_keeper(), 0) << "and not by a signal";
}

TEST(memory_keeper, lingers_the_longer_the_more_state_a_successor_has_to_copy) {
  EXPECT_GE(keeper_linger(0), std::chrono::milliseconds{100});
  EXPECT_GE(keeper_linger(std::uint64_t{4} << 30), std::chrono::seconds{4});
}

// A child of this process with that name, which sleeps or stands still.
int start_child(const char* name, bool stopped) {
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, name);
    if (stopped) ::raise(SIGSTOP);
    while (true) ::pause();
  }
  EXPECT_TRUE(eventually([&] { return test::proc_line(pid, "comm") == name; }));
  return pid;
}

TEST(children, of_all_that_a_process_has_only_the_keepers_are_killed_and_waited_for_as_such) {
  const int keeper = start_child(keeper_name, true);
  const int helper = start_child("helper", false);
  const int worker = start_child(keeper_name, false);  // that is just about to start its keeper
  children all;
  all.add({worker, rank_id{0}, incarnation_id{1}, 0});
  EXPECT_FALSE(all.has_keepers());
  all.kill_keepers();
  EXPECT_TRUE(all.has_keepers());
  EXPECT_TRUE(eventually([&] { return !all.next_ended() && !all.has_keepers(); }));
  EXPECT_NE(::kill(keeper, 0), 0) << "reaped";
  for (const int pid : {helper, worker}) {
    EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "lives";
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace ftrt::worker
