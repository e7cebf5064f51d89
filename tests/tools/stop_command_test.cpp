#include "tools/ftrt/stop_command.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <storage/run_directory.hpp>

#include "tests/tools/support.hpp"

namespace ftrt::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class stop_command : public ::testing::Test {
 protected:
  void SetUp() override {
    asked_.runs_directory = folder_.path() / "runs";
    auto made = storage::run_directory::create(asked_.runs_directory, "demo", "", 0);
    ASSERT_TRUE(made) << made.error().describe();
    report_.run.run_id = "demo-1";
    report_.holder = "pid 12 on host since noon";
  }

  exit_code run_it() {
    const auto told = [this](const std::filesystem::path& run,
                             const stop_options& how) -> result<stop_report> {
      stopped_ = run;
      how_ = how;
      return report_;
    };
    return stop(asked_, told, out_, errors_);
  }

  // What a run that was stopped at iteration 400 leaves.
  void ended(const std::string& status, std::uint64_t iterations, std::uint64_t saved) {
    report_.came_to = stop_report::outcome::ended;
    report_.run.status = status;
    report_.run.iterations = iterations;
    report_.checkpoint = checkpoint_row{};
    report_.checkpoint->iteration = saved;
    report_.checkpoint->directory = "/runs/demo-1/checkpoints/0001-000000000400";
  }

  test::temporary_folder folder_;
  test::captured stdout_;
  test::captured stderr_;
  output out_{stdout_.fd()};
  output errors_{stderr_.fd()};
  options asked_;
  stop_options how_;
  std::filesystem::path stopped_;
  stop_report report_;
};

TEST_F(stop_command, a_run_stopped_in_order_is_0_and_told_with_iteration_and_checkpoint) {
  ended("stopped", 400, 400);
  report_.waited = std::chrono::milliseconds{120};
  EXPECT_EQ(run_it(), exit_code::done);
  EXPECT_THAT(stdout_.text(), AllOf(HasSubstr("demo-1: stopped at iteration 400 after 120.0 ms"),
                                    HasSubstr("0001-000000000400")));
  EXPECT_THAT(stderr_.text(), IsEmpty());
  EXPECT_FALSE(how_.timeout) << "as long as the scenario allows";
}

TEST_F(stop_command, a_run_that_was_complete_before_it_stopped_is_0) {
  ended("completed", 400, 400);
  EXPECT_EQ(run_it(), exit_code::done);
}

TEST_F(stop_command, a_run_that_ended_otherwise_or_without_its_checkpoint_is_1_and_says_how) {
  ended("failed", 400, 400);
  EXPECT_EQ(run_it(), exit_code::failed);
  EXPECT_THAT(stderr_.text(), HasSubstr("failed at iteration 400"));
  ended("interrupted", 400, 400);
  EXPECT_EQ(run_it(), exit_code::failed);
  ended("stopped", 400, 300);
  EXPECT_EQ(run_it(), exit_code::failed);
  EXPECT_THAT(stderr_.text(), HasSubstr("checkpoint of iteration 300"));
  report_.checkpoint.reset();
  EXPECT_EQ(run_it(), exit_code::failed);
  EXPECT_THAT(stderr_.text(), HasSubstr("no checkpoint"));
}

TEST_F(stop_command, a_run_that_did_not_end_in_time_is_1_and_names_its_process) {
  report_.came_to = stop_report::outcome::asked;
  asked_.timeout = std::chrono::milliseconds{1500};
  EXPECT_EQ(run_it(), exit_code::failed);
  EXPECT_EQ(how_.timeout, asked_.timeout);
  EXPECT_THAT(stderr_.text(), AllOf(HasSubstr("has not ended"), HasSubstr("pid 12 on host")));
}

TEST_F(stop_command, who_does_not_wait_is_told_that_it_was_asked) {
  report_.came_to = stop_report::outcome::asked;
  asked_.no_wait = true;
  EXPECT_EQ(run_it(), exit_code::done);
  EXPECT_EQ(how_.timeout, std::chrono::milliseconds{0});
  EXPECT_THAT(stdout_.text(), HasSubstr("was asked to stop (pid 12 on host"));
}

TEST_F(stop_command, a_run_that_does_not_run_is_2_and_says_how_it_ended) {
  ended("completed", 400, 400);
  report_.came_to = stop_report::outcome::not_running;
  EXPECT_EQ(run_it(), exit_code::refused);
  EXPECT_THAT(stderr_.text(), HasSubstr("is not running: completed at iteration 400"));
  asked_.run_id = "no such run";
  EXPECT_EQ(run_it(), exit_code::refused);
}

TEST_F(stop_command,
       without_a_name_the_run_that_is_running_is_meant_and_one_of_several_is_asked_for) {
  const auto begin = [this](const char* name) {
    auto made = storage::run_directory::create(asked_.runs_directory, name, "", 0);
    EXPECT_TRUE(made) << made.error().describe();
    return std::move(*made);
  };
  ended("stopped", 400, 400);
  const auto held = begin("held");
  begin("newer");
  EXPECT_EQ(run_it(), exit_code::done);
  EXPECT_EQ(stopped_, held.path());
  stopped_.clear();
  const auto other = begin("other");
  EXPECT_EQ(run_it(), exit_code::refused);
  EXPECT_TRUE(stopped_.empty());
  EXPECT_THAT(stderr_.text(), AllOf(HasSubstr(held.id()), HasSubstr(other.id())));
}

TEST_F(stop_command, json_has_it_all_whatever_came_of_it) {
  asked_.json = true;
  ended("stopped", 400, 400);
  EXPECT_EQ(run_it(), exit_code::done);
  const auto told = nlohmann::json::parse(stdout_.text());
  EXPECT_EQ(told.at("outcome"), "ended");
  EXPECT_EQ(told.at("in_order"), true);
  EXPECT_EQ(told.at("checkpoint").at("iteration"), 400);
  EXPECT_EQ(told.at("iterations"), 400);
}

}  // namespace
}  // namespace ftrt::cli
