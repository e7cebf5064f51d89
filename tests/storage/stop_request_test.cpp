#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <fstream>
#include <ftrt/stop.hpp>
#include <storage/run_directory.hpp>
#include <storage/run_lock.hpp>
#include <storage/stop_request.hpp>
#include <tests/storage/support.hpp>
#include <thread>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;
using testing::child_process;
using testing::signal_pipe;

// ---- the lock's evidence ------------------------------------------------------------------------

TEST(run_lock, every_hold_has_a_token_of_its_own_that_others_can_read) {
  const temporary_folder folder;
  auto first = run_lock::take(folder.path()).value();
  const auto token = first.token();
  EXPECT_EQ(token.size(), 32U);
  ASSERT_TRUE(find_holder(folder.path()));
  EXPECT_EQ(find_holder(folder.path())->token, token);
  first.release();
  EXPECT_FALSE(find_holder(folder.path()));
  const auto second = run_lock::take(folder.path()).value();
  EXPECT_NE(second.token(), token);
  EXPECT_EQ(find_holder(folder.path())->token, second.token());
}

TEST(run_lock, a_holder_whose_run_is_over_has_no_token_and_says_so_to_who_wants_the_folder) {
  const temporary_folder folder;
  const auto lock = run_lock::take(folder.path()).value();
  lock.say_over();
  const auto holder = find_holder(folder.path());
  ASSERT_TRUE(holder);
  EXPECT_TRUE(holder->over);
  EXPECT_EQ(holder->token, "");
  EXPECT_EQ(holder->text.rfind("pid " + std::to_string(::getpid()) + " on ", 0), 0U);
  const auto refused = run_lock::take(folder.path());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("whose run is over"), std::string::npos);
}

TEST(run_lock, a_damaged_lock_file_names_nobody_and_gives_no_token) {
  const temporary_folder folder;
  const auto lock = run_lock::take(folder.path()).value();
  for (const std::string text : {"", "\n", "\033[2J\xff", "pid 1", "pid 1\nhold half a tok"}) {
    std::ofstream{folder.path() / "lock", std::ios::trunc} << text;
    const auto holder = find_holder(folder.path());
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->token, "") << text;
    EXPECT_FALSE(holder->over);
    EXPECT_EQ(holder->text.find('\033'), std::string::npos);
  }
}

// ---- the request --------------------------------------------------------------------------------

TEST(stop_request, is_taken_once_by_the_hold_that_it_is_for) {
  const temporary_folder folder;
  ASSERT_TRUE(write_stop_request(folder.path(), "mine", "the night is over\nreally"));
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), "the night is over really");
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(stop_request, for_an_earlier_hold_is_removed_and_not_obeyed) {
  const temporary_folder folder;
  ASSERT_TRUE(write_stop_request(folder.path(), "of the run before", "late"));
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(stop_request, anything_else_under_its_name_is_removed_and_stops_nobody) {
  const temporary_folder folder;
  const auto file = folder.path() / stop_request_name;
  for (const std::string text : {"", "mine", "\nmine\n", "mine2\n"}) {
    std::ofstream{file} << text;
    EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt) << text;
  }
  std::ofstream{file} << "mine\n" << std::string(1 << 20, 'x');
  EXPECT_EQ(take_stop_request(folder.path(), "mine")->size(), 300U) << "no more than a line of it";
  std::ofstream{folder.path() / "elsewhere"} << "mine\nby a link\n";
  fs::create_symlink(folder.path() / "elsewhere", file);
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt);
  EXPECT_TRUE(fs::remove(folder.path() / "elsewhere"));
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt);
  fs::create_directory(file);
  EXPECT_EQ(take_stop_request(folder.path(), "mine"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(stop_request, without_a_token_there_is_nobody_whom_it_could_be_for) {
  const temporary_folder folder;
  ASSERT_TRUE(write_stop_request(folder.path(), "", "anybody"));
  EXPECT_EQ(take_stop_request(folder.path(), ""), std::nullopt);
}

// ---- stop_run() ---------------------------------------------------------------------------------

class stop_run_of : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = run_directory::create(runs_.path(), "demo", "", 0);
    ASSERT_TRUE(made) << made.error().describe();
    path_ = made->path();
  }

  const temporary_folder runs_;
  fs::path path_;
};

TEST_F(stop_run_of, a_run_that_nobody_holds_asks_nobody_and_leaves_nothing) {
  const auto report = stop_run(path_);
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->came_to, stop_report::outcome::not_running);
  EXPECT_FALSE(report->in_order());
  EXPECT_FALSE(fs::exists(path_ / stop_request_name));
}

TEST_F(stop_run_of, a_run_that_is_over_though_its_service_keeps_it_asks_nobody) {
  const auto kept = run_directory::open(path_).value();
  kept.say_over();
  const auto report = stop_run(path_);
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->came_to, stop_report::outcome::not_running);
  EXPECT_FALSE(fs::exists(path_ / stop_request_name));
}

TEST_F(stop_run_of, a_holder_that_does_not_answer_is_given_up_at_the_deadline_and_named) {
  const auto held = run_directory::open(path_).value();
  stop_options patience;
  patience.timeout = std::chrono::milliseconds{50};
  const auto report = stop_run(path_, patience);
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->came_to, stop_report::outcome::asked);
  EXPECT_NE(report->holder.find("pid " + std::to_string(::getpid())), std::string::npos);
  EXPECT_GE(report->waited.count(), 50);
  const auto reason = take_stop_request(path_, held.hold_token());
  ASSERT_TRUE(reason) << "the request stands";
  EXPECT_EQ(reason->rfind("asked by pid " + std::to_string(::getpid()) + " on ", 0), 0U);
}

TEST_F(stop_run_of, a_holder_that_dies_without_a_word_ends_the_wait_and_is_not_in_order) {
  const signal_pipe held;
  child_process holder{[&] {
    const auto run = run_directory::open(path_);
    if (!run) return 1;
    held.say();
    while (!take_stop_request(path_, run->hold_token())) ::poll(nullptr, 0, 1);
    ::raise(SIGKILL);
    return 0;
  }};
  held.wait();
  const auto report = stop_run(path_);
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->came_to, stop_report::outcome::ended);
  EXPECT_FALSE(report->in_order());
  EXPECT_EQ(holder.wait(), -SIGKILL);
}

TEST_F(stop_run_of, nothing_is_not_found) {
  EXPECT_EQ(stop_run(runs_.path() / "none").error().code, error_code::not_found);
  // Nor is the beginning of another run's name a run.
  const auto part = path_.parent_path() / path_.filename().string().substr(0, 3);
  EXPECT_EQ(stop_run(part).error().code, error_code::not_found);
}

}  // namespace
}  // namespace ftrt::storage
