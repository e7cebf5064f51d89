// The process that holds a worker's memory for a while after its death. The child of each test
// stands for the worker; the keeper is a child of the test itself.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <runtime/worker/memory_keeper.hpp>
#include <schemas/unique_fd.hpp>
#include <string>
#include <vector>

namespace ftrt::worker {
namespace {

constexpr std::size_t memory_bytes = std::size_t{64} << 20;
constexpr std::chrono::minutes for_ever{10};

std::size_t resident_bytes(int pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/statm"};
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

// With so much memory of its own, and a keeper.
class kept_process {
 public:
  explicit kept_process(std::chrono::milliseconds linger) {
    std::array<int, 2> said{};
    std::array<int, 2> line{};
    EXPECT_EQ(::pipe(said.data()), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(line[0]);
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

  [[nodiscard]] int keeper() const { return keeper_; }
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
    const auto keeper = start_memory_keeper(lifeline, linger);
    const int pid = keeper ? *keeper : -1;
    [[maybe_unused]] const auto written = ::write(say, &pid, sizeof pid);
    while (memory.front() == 1) ::pause();
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
  EXPECT_GE(resident_bytes(process.keeper()), memory_bytes);
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

}  // namespace
}  // namespace ftrt::worker
