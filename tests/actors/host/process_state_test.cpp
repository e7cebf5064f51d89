#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <actors/host/process_state.hpp>
#include <chrono>
#include <optional>
#include <schemas/unique_fd.hpp>
#include <tests/support/processes.hpp>
#include <thread>
#include <vector>

namespace ftrt::host {
namespace {

// A child that is over and not reaped.
class ended_child {
 public:
  template <class Life>
  explicit ended_child(Life life) : pid_(::fork()) {
    if (pid_ == 0) {
      life();
      ::_exit(0);
    }
    pidfd_ = test::open_pidfd(pid_);
    EXPECT_TRUE(test::ends_within(pidfd_, std::chrono::seconds{30}));
  }
  ~ended_child() { reap(); }
  ended_child(const ended_child&) = delete;
  ended_child& operator=(const ended_child&) = delete;

  int reap() {
    int status = 0;
    if (!reaped_) ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return status;
  }
  [[nodiscard]] std::optional<int> status() const {
    return wait_status_of_unreaped(pid_, pidfd_.get());
  }

 private:
  pid_t pid_;
  unique_fd pidfd_;
  bool reaped_ = false;
};

TEST(exit_status, of_a_killed_process_is_what_its_parent_will_be_told) {
  ended_child child{[] { ::raise(SIGKILL); }};
  const auto status = child.status();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, child.reap());
  EXPECT_EQ(WTERMSIG(*status), SIGKILL);
}

TEST(exit_status, of_a_process_that_exits_is_what_its_parent_will_be_told) {
  ended_child child{[] { ::_exit(70); }};
  const auto status = child.status();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, child.reap());
  EXPECT_EQ(WEXITSTATUS(*status), 70);
}

TEST(exit_status, of_a_reaped_process_or_of_success_is_left_to_the_parent) {
  ended_child child{[] { ::_exit(70); }};
  child.reap();
  EXPECT_FALSE(child.status());
  EXPECT_FALSE(ended_child{[] {}}.status());
}

TEST(process_state, tells_who_is_stopped_from_who_runs) {
  const auto child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  EXPECT_FALSE(is_stopped(child));
  ::kill(child, SIGSTOP);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(is_stopped(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(is_stopped(child));
}

TEST(process_state, tells_who_has_ended_before_it_is_reaped) {
  const auto child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const auto pidfd = test::open_pidfd(child);
  EXPECT_FALSE(has_ended(pidfd.get()));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(test::ends_within(pidfd, std::chrono::seconds{10}));
  EXPECT_TRUE(has_ended(pidfd.get()));
  ::waitpid(child, nullptr, 0);
}

TEST(thread_time, moves_while_a_thread_runs_and_says_whether_it_wants_to) {
  const auto self = static_cast<std::uint64_t>(::gettid());
  const auto before = time_of_thread(::getpid(), self);
  ASSERT_TRUE(before.has_value());
  EXPECT_TRUE(before->runnable);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
  while (std::chrono::steady_clock::now() < until) {
  }
  const auto after = time_of_thread(::getpid(), self);
  ASSERT_TRUE(after.has_value());
  // What it did not get of the time, it waited for.
  EXPECT_GE(after->ran + after->waited - before->ran - before->waited,
            std::chrono::milliseconds{50});
}

TEST(thread_time, of_a_thread_that_sleeps_stands_still) {
  const auto child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const auto thread = static_cast<std::uint64_t>(child);
  const auto sleeps = [&] {
    const auto time = time_of_thread(child, thread);
    return time && !time->runnable;
  };
  while (!sleeps()) ::sched_yield();
  const auto before = time_of_thread(child, thread);
  ::usleep(50000);
  EXPECT_EQ(time_of_thread(child, thread)->ran, before->ran);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(thread_time, of_no_thread_or_of_another_process_is_unknown) {
  EXPECT_FALSE(time_of_thread(::getpid(), 0));
  EXPECT_FALSE(time_of_thread(::getpid(), ~std::uint64_t{0}));
  EXPECT_FALSE(time_of_thread(::getpid(), static_cast<std::uint64_t>(::getppid())));
}

}  // namespace
}  // namespace ftrt::host
