// What a run with faults leaves behind, read with the tools that people use: TensorBoard's own
// reader, safetensors, the sqlite3 shell.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <tests/support/command.hpp>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;

std::string python() {
  return quoted(source_tree() / ".venv/bin/python") + " ";
}
fs::path source(const char* file) {
  return source_tree() / file;
}

// One run in which both ranks died at once, twice: each test looks at it from another side.
class after_rollbacks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new scratch_folder;
    done_ = new finished_run{
        train(folder_->path(), small_scenario(folder_->path(),
                                              "[metrics]\nevery_iterations = 5\n[[chaos]]\n"
                                              "kind = \"kill\"\nranks = \"all\"\nevery = 430\n"))};
  }
  static void TearDownTestSuite() {
    delete done_;
    delete folder_;
  }
  void SetUp() override {
    ASSERT_EQ(done_->exit_code, 0) << done_->err;
    ASSERT_GE(done_->summary["recoveries"].size(), 4U);
    run_ = only_run(folder_->path());
  }

  std::string ask(const std::string& sql) const {
    const auto answer =
        run_command("sqlite3 " + quoted(run_ / "catalog.sqlite") + " \"" + sql + "\"");
    EXPECT_EQ(answer.exit_code, 0) << answer.out;
    return answer.out;
  }

  static inline scratch_folder* folder_ = nullptr;
  static inline finished_run* done_ = nullptr;
  fs::path run_;
};

TEST_F(after_rollbacks, C34_tensorboard_reads_one_strictly_increasing_series_for_each_tag) {
  const auto read =
      run_command(python() + quoted(source("tests/actors/metrics/read_tensorboard.py")) + " " +
                  quoted(run_ / "tensorboard"));
  ASSERT_EQ(read.exit_code, 0) << read.out;
  const auto series = nlohmann::json::parse(read.out.substr(read.out.find('{')), nullptr, false);
  ASSERT_TRUE(series.is_object()) << read.out;
  for (const std::string tag :
       {"train/loss", "train/lr", "train/grad_norm", "train/loss_scale", "time/step_ms",
        "throughput/samples_per_second", "run/generation", "run/recoveries"}) {
    ASSERT_TRUE(series.contains(tag)) << tag;
    // 1260 iterations, a point each five: none is missing, none is twice.
    EXPECT_EQ(series[tag].size(), 252U) << tag;
    EXPECT_EQ(series[tag].back()[0], 1260) << tag;
  }
  EXPECT_EQ(series["test/accuracy"].size(), 4U);
  EXPECT_GE(series["checkpoint/ms"].size(), 1U);
}

TEST_F(after_rollbacks, a_checkpoint_is_readable_as_safetensors) {
  std::size_t shards = 0;
  for (const auto& file : fs::recursive_directory_iterator{run_ / "checkpoints"}) {
    if (file.path().extension() != ".safetensors") continue;
    ++shards;
    const auto read = run_command(python() + quoted(source("tests/storage/read_checkpoint.py")) +
                                  " " + quoted(file.path()));
    EXPECT_EQ(read.exit_code, 0) << read.out;
    EXPECT_FALSE(read.out.empty());
  }
  EXPECT_GE(shards, 2U);
}

TEST_F(after_rollbacks, the_catalog_tells_what_happened) {
  EXPECT_EQ(ask("select status, iterations from runs"), "completed|1260\n");
  EXPECT_EQ(ask("select count(*) from generations"),
            std::to_string(static_cast<int>(done_->summary["generations"])) + "\n");
  EXPECT_EQ(ask("select max(iteration) from checkpoints where state = 'verified'"), "1260\n");
  EXPECT_EQ(ask("select count(*) >= 4 from events where kind = 'worker_lost'"), "1\n");
  EXPECT_EQ(ask("select count(*) >= 2 from branches where branch > 1"), "1\n");
  EXPECT_EQ(ask("select count(*) from incarnations where ended_ms is not null and cause like "
                "'%SIGKILL%'"),
            "4\n")
      << ask("select rank, incarnation, ended_ms, cause from incarnations");
  EXPECT_EQ(ask("select count(*) from incarnations where ended_ms is null"), "0\n");
}

TEST_F(after_rollbacks, C23_the_ledger_has_every_iteration_exactly_once) {
  // The ranges that are not void, in order: each begins where the one before ended.
  const auto holes =
      ask("select count(*) from (select first_iteration, lag(last_iteration, 1, 0) over (order by "
          "first_iteration) as before from ledger where voided = 0) where first_iteration <> "
          "before + 1");
  EXPECT_EQ(holes, "0\n");
  EXPECT_EQ(ask("select max(last_iteration) from ledger where voided = 0"), "1260\n");
}

TEST_F(after_rollbacks, retention_keeps_the_newest_and_the_run_directory_is_private) {
  EXPECT_LE(checkpoints_of(folder_->path()), 3U);
  struct stat info {};
  ASSERT_EQ(::stat(run_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(after_rollbacks, the_event_log_and_the_events_table_agree) {
  std::size_t lines = 0;
  const auto log = read_file(run_ / "events.jsonl");
  for (const char c : log) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(ask("select count(*) from events"), std::to_string(lines) + "\n");
}

}  // namespace
}  // namespace ftrt::test
