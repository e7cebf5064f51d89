#include "tools/ftrt/train_command.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/tools/support.hpp"
#include "tools/ftrt/atomic_file.hpp"

namespace ftrt::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A run that ends when it is told to.
class scripted_run final : public run {
 public:
  explicit scripted_run(run_options options) : options_(std::move(options)) {}

  [[nodiscard]] const std::string& id() const override { return id_; }
  [[nodiscard]] const std::filesystem::path& directory() const override { return directory_; }
  void request_stop(const std::string&) override { end("stopped", ""); }
  void stop_now() override { end("stopped", "at once"); }
  void end(const std::string& status, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!summary_.status.empty()) return;
    summary_.status = status;
    summary_.error = reason;
    ended_.notify_all();
  }

  void expect(std::vector<expectation> expectations) {
    summary_.expectations = std::move(expectations);
  }

  [[nodiscard]] run_summary wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !summary_.status.empty(); });
    summary_.run_id = id_;
    return summary_;
  }
  [[nodiscard]] std::optional<run_summary> wait_for(std::chrono::milliseconds) override {
    return std::nullopt;
  }

 protected:
  run_options options_;

 private:
  std::string id_ = "scripted-1";
  std::filesystem::path directory_ = "/runs/scripted-1";
  std::mutex mutex_;
  std::condition_variable ended_;
  run_summary summary_;
};

// Sends the next signal when it is asked to stop: the second one then ends it.
class stubborn_run final : public run {
 public:
  [[nodiscard]] const std::string& id() const override { return inner_.id(); }
  [[nodiscard]] const std::filesystem::path& directory() const override {
    return inner_.directory();
  }
  void request_stop(const std::string&) override { ::kill(::getpid(), SIGTERM); }
  void stop_now() override { inner_.stop_now(); }
  [[nodiscard]] run_summary wait() override { return inner_.wait(); }
  [[nodiscard]] std::optional<run_summary> wait_for(std::chrono::milliseconds) override {
    return std::nullopt;
  }

 private:
  scripted_run inner_{run_options{}};
};

class train_command : public ::testing::Test {
 protected:
  int run_it(const starter& start) { return train(asked_, start, interrupts_, out_, errors_); }

  test::temporary_folder folder_;
  test::captured stdout_;
  test::captured stderr_;
  output out_{stdout_.fd()};
  output errors_{stderr_.fd()};
  signals interrupts_;
  options asked_;
};

starter ending_with(const std::string& status, const std::string& error) {
  return [=](const run_options& options) -> tl::expected<std::unique_ptr<run>, start_error> {
    event happened;
    happened.text = "a rank died";
    options.on_event(happened);
    options.on_progress(progress{});
    auto made = std::make_unique<scripted_run>(options);
    made->end(status, error);
    return made;
  };
}

TEST_F(train_command, a_completed_run_ends_with_0_a_story_and_a_summary_file) {
  asked_.summary = folder_.path() / "s.json";
  EXPECT_EQ(run_it(ending_with("completed", "")), 0);
  EXPECT_THAT(stdout_.text(), AllOf(HasSubstr("a rank died"), HasSubstr("scripted-1: completed")));
  EXPECT_THAT(stderr_.text(), IsEmpty());
  const auto summary = nlohmann::json::parse(test::read_file(asked_.summary));
  EXPECT_EQ(summary.at("status"), "completed");
  EXPECT_EQ(folder_.entries(), 1u) << "no temporary file stays";
}

TEST_F(train_command, a_story_that_finds_no_room_is_told_of_and_fails_no_training) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  output nowhere{full};
  EXPECT_EQ(train(asked_, ending_with("completed", ""), interrupts_, nowhere, errors_), 0);
  ::close(full);
  EXPECT_THAT(stderr_.text(), HasSubstr("cannot write the output: No space left on device"));
}

TEST_F(train_command, a_failed_run_ends_with_1_the_cause_on_stderr_and_a_summary_file) {
  asked_.summary = folder_.path() / "s.json";
  EXPECT_EQ(run_it(ending_with("failed", "rank 1 crashed 5 times\033[2J")), 1);
  EXPECT_THAT(stderr_.text(), HasSubstr("the run failed: rank 1 crashed 5 times\\x1b[2J"));
  EXPECT_EQ(nlohmann::json::parse(test::read_file(asked_.summary)).at("status"), "failed");
}

starter ending_as(const std::string& status, std::vector<expectation> expectations) {
  return [=](const run_options& options) -> tl::expected<std::unique_ptr<run>, start_error> {
    auto made = std::make_unique<scripted_run>(options);
    made->expect(expectations);
    made->end(status, status == "failed" ? "it was to" : "");
    return made;
  };
}

TEST_F(train_command, an_expectation_that_is_not_met_ends_with_1_and_is_named) {
  const expectation met{"max_recoveries", "at most 3", "1", true};
  const expectation unmet{"max_lost_iterations", "at most 0", "12", false};
  EXPECT_EQ(run_it(ending_as("completed", {met})), 0);
  EXPECT_THAT(stderr_.text(), IsEmpty());
  EXPECT_EQ(run_it(ending_as("completed", {met, unmet})), 1);
  EXPECT_THAT(stderr_.text(),
              HasSubstr("ftrt: expect.max_lost_iterations: expected at most 0, found 12"));
  EXPECT_THAT(stdout_.text(), HasSubstr("1 of 2 met"));
}

TEST_F(train_command, a_failure_that_is_expected_ends_with_0) {
  EXPECT_EQ(run_it(ending_as("failed", {{"status", "failed", "failed", true}})), 0);
  EXPECT_EQ(run_it(ending_as("failed", {{"max_recoveries", "at most 3", "1", true}})), 1);
}

TEST_F(train_command, a_summary_on_stdout_leaves_nothing_else_there) {
  asked_.summary = "-";
  EXPECT_EQ(run_it(ending_with("completed", "")), 0);
  EXPECT_EQ(nlohmann::json::parse(stdout_.text()).at("run_id"), "scripted-1");
  EXPECT_THAT(stderr_.text(), HasSubstr("a rank died"));
}

TEST_F(train_command, quiet_prints_nothing_where_nothing_is_wrong) {
  asked_.quiet = true;
  EXPECT_EQ(run_it(ending_with("completed", "")), 0);
  EXPECT_THAT(stdout_.text(), IsEmpty());
  EXPECT_THAT(stderr_.text(), IsEmpty());
}

TEST_F(train_command, a_refused_start_ends_with_2_one_line_for_each_fault_and_no_file) {
  asked_.summary = folder_.path() / "s.json";
  const auto refusing = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    const diagnostic first{"t10k", 0, "data.path", "60000 labels", "59999", ""};
    return tl::unexpected(start_error{{first, first}, std::nullopt});
  };
  EXPECT_EQ(run_it(refusing), 2);
  const std::string text = stderr_.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, AllOf(HasSubstr("60000 labels"), HasSubstr("59999")));
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(train_command, a_start_that_fails_or_throws_ends_with_1_and_says_why) {
  asked_.summary = folder_.path() / "s.json";
  const auto failing = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    return tl::unexpected(start_error{{}, error{error_code::timeout, "no worker in 30 s", ""}});
  };
  EXPECT_EQ(run_it(failing), 1);
  EXPECT_THAT(stderr_.text(), HasSubstr("no worker in 30 s"));
  EXPECT_THAT(test::read_file(asked_.summary),
              AllOf(HasSubstr("no worker in 30 s"), HasSubstr("\"wall_seconds\": null"),
                    HasSubstr("\"train_loss\": null")));

  const auto throwing = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    throw std::runtime_error("no threads left");
  };
  EXPECT_EQ(run_it(throwing), 1);
  EXPECT_THAT(stderr_.text(), HasSubstr("no threads left"));
}

TEST_F(train_command,
       a_start_that_the_world_does_not_allow_is_refused_with_2_and_leaves_no_summary) {
  asked_.summary = folder_.path() / "s.json";
  const auto refusing = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    return tl::unexpected(start_error{{}, error{error_code::busy, "held by process 7", ""}, true});
  };
  EXPECT_EQ(run_it(refusing), 2);
  EXPECT_THAT(stderr_.text(), HasSubstr("held by process 7"));
  EXPECT_FALSE(std::filesystem::exists(asked_.summary));
}

TEST_F(train_command, a_summary_that_cannot_be_written_is_refused_before_anything_starts) {
  asked_.summary = folder_.path() / "missing" / "s.json";
  const auto untouched = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    ADD_FAILURE() << "the run was started";
    return tl::unexpected(start_error{});
  };
  EXPECT_EQ(run_it(untouched), 2);
  EXPECT_THAT(stderr_.text(), HasSubstr("s.json"));
}

TEST_F(train_command, the_first_signal_asks_for_an_orderly_stop_and_names_itself_in_the_exit_code) {
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    ::kill(::getpid(), number);
    const auto running =
        [](const run_options& options) -> tl::expected<std::unique_ptr<run>, start_error> {
      return std::make_unique<scripted_run>(options);
    };
    EXPECT_EQ(run_it(running), code);
  }
  EXPECT_THAT(stdout_.text(), AllOf(HasSubstr("SIGINT: stopping after a checkpoint"),
                                    HasSubstr("SIGTERM: stopping after a checkpoint")));
}

TEST_F(train_command, the_second_signal_stops_at_once) {
  ::kill(::getpid(), SIGTERM);
  const auto stubborn = [](const run_options&) -> tl::expected<std::unique_ptr<run>, start_error> {
    return std::make_unique<stubborn_run>();
  };
  EXPECT_EQ(run_it(stubborn), 143);
  EXPECT_THAT(stdout_.text(), HasSubstr("SIGTERM: stopping at once"));
}

TEST_F(train_command, a_stop_that_came_to_no_last_checkpoint_ends_with_1_and_says_so) {
  asked_.quiet = true;
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(run_it(ending_with("stopped", "the stop's deadline passed")), 1);
  EXPECT_THAT(stderr_.text(), HasSubstr("the stop's deadline passed"));
  while (interrupts_.take()) {
  }
}

TEST_F(train_command, a_run_that_was_stopped_from_outside_ends_as_sigterm_would_have_it) {
  EXPECT_EQ(run_it(ending_with("stopped", "")), 143);
  EXPECT_EQ(run_it(ending_with("stopped", "the stop's deadline passed")), 1);
}

TEST_F(train_command, a_run_that_completes_although_it_was_signalled_is_done) {
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(run_it(ending_with("completed", "")), 0);
  while (interrupts_.take()) {
  }
}

TEST(atomic_file, replaces_the_old_content_and_honours_the_umask) {
  test::temporary_folder folder;
  const auto file = folder.path() / "s.json";
  ASSERT_TRUE(write_atomically(file, "old"));
  ASSERT_TRUE(write_atomically(file, "new"));
  EXPECT_EQ(test::read_file(file), "new");
  EXPECT_EQ(folder.entries(), 1u);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const auto mode = std::filesystem::status(file).permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0666u & ~mask);
}

TEST(atomic_file, says_why_it_cannot_write_and_leaves_nothing) {
  test::temporary_folder folder;
  EXPECT_THAT(probe_writable(folder.path()).error().message, HasSubstr("cannot write"));
  EXPECT_FALSE(write_atomically(folder.path(), "text"));
  EXPECT_EQ(folder.entries(), 0u);
  EXPECT_FALSE(write_atomically(folder.path() / "none" / "s.json", "text"));
}

}  // namespace
}  // namespace ftrt::cli
