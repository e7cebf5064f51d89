#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <storage/catalog.hpp>
#include <storage/postmortem.hpp>
#include <storage/run_directory.hpp>
#include <storage/status_file.hpp>

#include "tests/tools/support.hpp"
#include "tools/ftrt/postmortem_command.hpp"
#include "tools/ftrt/status_command.hpp"

namespace ftrt::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One run that is at work, as other processes see it.
class report_commands : public ::testing::Test {
 protected:
  void SetUp() override {
    asked_.runs_directory = folder_.path() / "runs";
    auto made = storage::run_directory::create(asked_.runs_directory, "demo", "", 0);
    ASSERT_TRUE(made) << made.error().describe();
    run_ = std::move(*made);
    std::vector<std::string> notes;
    auto catalog = storage::catalog::open(run_->path(), run_->id(), notes);
    ASSERT_TRUE(catalog && catalog->begin_run(run_->id(), "demo", 1'700'000'000'000));
  }

  [[nodiscard]] static run_status training() {
    run_status status;
    status.written_ms = 1'700'000'000'000;
    status.phase = "training";
    status.generation = 2;
    status.iteration = 400;
    status.total_iterations = 1000;
    status.last_checkpoint_iteration = 350;
    status.ranks = {{0, 1, 4711, true, "all_reduce", 401, 400, 0.5, 11.25},
                    {1, 2, 4712, true, "compute\033[2J", 401, 400, 0.5, 212.5}};
    status.stragglers = {{1, 212.5, 11.25, 40, false}};
    return status;
  }

  [[nodiscard]] static postmortem lost_rank() {
    postmortem report;
    report.generation = 3;
    report.taken_ms = 1'700'000'000'000;
    report.culprits = {1};
    for (const std::uint32_t r : {0U, 1U}) {
      postmortem_rank rank;
      rank.rank = r;
      rank.member = true;
      rank.alive = r == 0;
      rank.phase = r == 0 ? "all_reduce" : "compute";
      rank.iteration = 77;
      rank.begun = 231 - r;
      rank.completed = 230;
      for (std::uint64_t k = 60; k < 77; ++k) {
        rank.records.push_back({"iteration", k, 3 * k, 1 << 20, 2, 1, 4, 5});
      }
      report.ranks.push_back(rank);
    }
    report.ranks[1].lost = true;
    report.ranks[1].cause = "killed by signal 9 (SIGKILL)\033[2J";
    storage::find_missing(report);
    return report;
  }

  test::temporary_folder folder_;
  test::captured stdout_;
  test::captured stderr_;
  output out_{stdout_.fd()};
  output errors_{stderr_.fd()};
  options asked_;
  std::optional<storage::run_directory> run_;
};

TEST_F(report_commands, status_shows_ranks_stragglers_and_the_age_of_the_news) {
  ASSERT_TRUE(storage::write_status(run_->path(), training()));
  EXPECT_EQ(show_status(asked_, out_, errors_), exit_code::done) << stderr_.text();
  EXPECT_THAT(stdout_.text(),
              AllOf(HasSubstr(": running (pid "), HasSubstr(", as of "), HasSubstr(" ago\n"),
                    HasSubstr("iteration 400 of 1000"), HasSubstr("generation 2, training"),
                    HasSubstr("last checkpoint of iteration 350"), HasSubstr("4711"),
                    HasSubstr("straggler: 212.5 ms an iteration, the others 11.2 ms"),
                    Not(HasSubstr("\033"))));
}

TEST_F(report_commands, status_of_a_run_that_has_said_nothing_says_that) {
  EXPECT_EQ(show_status(asked_, out_, errors_), exit_code::done) << stderr_.text();
  EXPECT_THAT(stdout_.text(), HasSubstr("it has not said yet where it stands"));
}

TEST_F(report_commands, status_as_json_has_what_the_header_names) {
  ASSERT_TRUE(storage::write_status(run_->path(), training()));
  asked_.json = true;
  EXPECT_EQ(show_status(asked_, out_, errors_), exit_code::done) << stderr_.text();
  const auto said = json::parse(stdout_.text());
  EXPECT_EQ(said["status"], "running");
  EXPECT_EQ(said["run_id"], run_->id());
  EXPECT_EQ(said["told"], true);
  EXPECT_GT(said["age_seconds"], 1000);
  EXPECT_EQ(said["stragglers"][0]["rank"], 1);
  EXPECT_EQ(said["test_accuracy"], nullptr);
}

TEST_F(report_commands, a_run_without_a_holder_is_interrupted_and_its_last_words_have_a_date) {
  ASSERT_TRUE(storage::write_status(run_->path(), training()));
  run_.reset();
  EXPECT_EQ(show_status(asked_, out_, errors_), exit_code::done) << stderr_.text();
  EXPECT_THAT(stdout_.text(), AllOf(HasSubstr(": interrupted; its last word is of 20"),
                                    HasSubstr("iteration 400"), Not(HasSubstr("4711"))));
}

TEST_F(report_commands, postmortem_puts_the_culprit_on_top_and_shows_the_last_iterations) {
  ASSERT_TRUE(storage::write_postmortem(run_->path(), lost_rank()));
  EXPECT_EQ(show_postmortem(asked_, out_, errors_), exit_code::done) << stderr_.text();
  const auto text = stdout_.text();
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1 lost: killed by signal 9 (SIGKILL)"),
                          HasSubstr("in compute of iteration 77; it did not arrive in collective "
                                    "231, in which rank 0 waited"),
                          HasSubstr("231 (in it)"), HasSubstr("1.0 MiB"), Not(HasSubstr("\033"))));
  EXPECT_THAT(text, AllOf(HasSubstr(" 76 "), HasSubstr(" 69 "), Not(HasSubstr(" 68 "))));
}

TEST_F(report_commands, postmortem_as_json_has_all_records) {
  ASSERT_TRUE(storage::write_postmortem(run_->path(), lost_rank()));
  asked_.json = true;
  asked_.generation = 3;
  EXPECT_EQ(show_postmortem(asked_, out_, errors_), exit_code::done) << stderr_.text();
  const auto said = json::parse(stdout_.text());
  EXPECT_EQ(said["missing"], json::array({1}));
  EXPECT_EQ(said["ranks"][1]["records"].size(), 17U);
}

TEST_F(report_commands, postmortem_of_what_was_not_lost_is_usage) {
  EXPECT_EQ(show_postmortem(asked_, out_, errors_), exit_code::refused);
  EXPECT_THAT(stderr_.text(), HasSubstr("none of its generations has ended by a loss"));
  EXPECT_THAT(stdout_.text(), IsEmpty());
  ASSERT_TRUE(storage::write_postmortem(run_->path(), lost_rank()));
  asked_.generation = 4;
  EXPECT_EQ(show_postmortem(asked_, out_, errors_), exit_code::refused);
  EXPECT_THAT(stderr_.text(), HasSubstr("generation 4 of run demo"));
}

}  // namespace
}  // namespace ftrt::cli
