// What other processes can learn of a run: where it stands, and what each rank did when one was
// lost.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

using nlohmann::json;

// 40 ms in each of its two micro-batches, for as long as its process lives.
const std::string slow_rank_1 = R"(
[[chaos]]
kind = "slow"
rank = 1
delay = "40ms"
at_iteration = 20
)";

class forensics : public ::testing::Test {
 protected:
  // The small run, up to its first checkpoint.
  void begin(std::vector<std::string> sets = {}, const std::string& more = "") {
    const auto scenario = small_scenario(folder_.path(), more);
    process_ = std::make_unique<ftrt_process>(
        folder_.path(), training_arguments(folder_.path(), scenario, std::move(sets)));
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << err();
  }

  // What another `ftrt` prints about the runs of this one.
  [[nodiscard]] finished_run ask(std::vector<std::string> arguments) const {
    const scratch_folder folder;
    arguments.push_back("--runs-directory");
    arguments.push_back((folder_.path() / "runs").string());
    ftrt_process process{folder.path(), arguments};
    return collect(process, folder.path());
  }
  [[nodiscard]] json ask_json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const auto answer = ask(std::move(arguments));
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return json::parse(answer.out, nullptr, false);
  }

  void signal_worker(std::uint32_t rank, int number) {
    const auto pid = process_->worker_of(rank);
    ASSERT_TRUE(pid.has_value()) << err();
    ::kill(*pid, number);
  }

  // What events say of a straggler so far.
  [[nodiscard]] std::vector<std::string> straggler_texts() const {
    std::vector<std::string> texts;
    std::istringstream lines{read_file(only_run(folder_.path()) / "events.jsonl")};
    for (std::string line; std::getline(lines, line);) {
      const auto happened = json::parse(line, nullptr, false);
      if (!happened.is_object() || happened["kind"] != "straggler") continue;
      if (happened["rank"] == 1) texts.push_back(happened["text"]);
    }
    return texts;
  }

  finished_run finish() {
    auto done = collect(*process_, folder_.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done;
  }

  [[nodiscard]] std::string err() const { return process_->err(); }

  scratch_folder folder_;
  std::unique_ptr<ftrt_process> process_;
};

TEST_F(forensics, a_killed_rank_is_named_with_its_phase_iteration_and_last_iterations) {
  begin();
  signal_worker(1, SIGKILL);
  const auto done = finish();
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  const auto report = ask_json({"postmortem"});
  EXPECT_EQ(report["generation"], 1);
  EXPECT_EQ(report["culprits"], json::array({1})) << report.dump(2);
  ASSERT_EQ(report["ranks"].size(), 2U);
  const auto& dead = report["ranks"][1];
  EXPECT_TRUE(dead["lost"]);
  EXPECT_FALSE(dead["alive"]);
  EXPECT_NE(std::string{dead["cause"]}.find("SIGKILL"), std::string::npos);
  EXPECT_GE(dead["committed"], 50);
  EXPECT_FALSE(std::string{dead["phase"]}.empty());
  EXPECT_TRUE(report["ranks"][0]["alive"]);
  EXPECT_FALSE(report["ranks"][0]["lost"]);
  for (const auto& rank : report["ranks"]) {
    EXPECT_TRUE(rank["member"]);
    ASSERT_EQ(rank["records"].size(), 32U);
    const auto& records = rank["records"];
    const auto found = std::find_if(records.rbegin(), records.rend(), [](const json& record) {
      return record["kind"] == "iteration";
    });
    ASSERT_NE(found, records.rend());
    const auto& last = *found;
    EXPECT_GT(last["collectives"], 50);
    EXPECT_GT(last["reduced_bytes"], 64 * 96 * 4);
    EXPECT_GT(last["compute_ms"], 0);
  }
  const auto text = ask({"postmortem", "small", "1"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("rank 1 lost: killed by signal 9 (SIGKILL), in "), std::string::npos)
      << text.out;
  std::printf("%s", text.out.substr(0, 700).c_str());
  EXPECT_EQ(ask({"postmortem", "small", "7"}).exit_code, 2);
}

// Stopped where it computes: it is slow, so that it is there nearly always. Once it has contributed
// its part of a collective it has arrived in it, and only its end is to be waited for.
TEST_F(forensics, C07_a_stopped_rank_is_named_as_the_one_that_did_not_arrive) {
  begin({"supervision.hang_floor=\"500ms\"", "supervision.hang_timeout_first=\"3s\""}, slow_rank_1);
  signal_worker(1, SIGSTOP);
  finish();
  const auto report = ask_json({"postmortem"});
  EXPECT_EQ(report["culprits"], json::array({1})) << report.dump(2);
  const auto& stopped = report["ranks"][1];
  EXPECT_GT(stopped["quiet_ms"], 400);
  if (stopped["phase"] != "compute") {
    EXPECT_EQ(stopped["begun"], report["ranks"][0]["begun"]) << report.dump(2);
    return;
  }
  EXPECT_EQ(report["missing"], json::array({1})) << report.dump(2);
  EXPECT_EQ(report["waiting"], json::array({0})) << report.dump(2);
  const auto text = ask({"postmortem"});
  EXPECT_NE(text.out.find("it did not arrive in collective " +
                          std::to_string(std::uint64_t{report["collective"]}) +
                          ", in which rank 0 waited"),
            std::string::npos)
      << text.out;
}

TEST_F(forensics, a_run_that_fails_leaves_what_its_ranks_did_last) {
  begin({"supervision.max_restarts=0"});
  signal_worker(0, SIGKILL);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 1) << done.err;
  const auto report = ask_json({"postmortem"});
  EXPECT_EQ(report["culprits"], json::array({0})) << report.dump(2);
  const auto status = ask_json({"status"});
  EXPECT_EQ(status["status"], "failed");
  EXPECT_EQ(status["phase"], "ended");
  EXPECT_NE(std::string{status["error"]}.find("restarts"), std::string::npos) << status.dump(2);
}

TEST_F(forensics, a_running_run_tells_other_processes_where_it_stands_and_then_how_it_ended) {
  begin({"train.epochs=2000"});
  EXPECT_EQ(ask({"postmortem"}).exit_code, 2) << "nobody was lost";
  json status;
  ASSERT_TRUE(eventually([&] {
    status = ask_json({"status"});
    return status.value("iteration", 0) >= 50 && status["spares"].size() == 1;
  })) << status.dump(2);
  EXPECT_EQ(status["status"], "running");
  EXPECT_EQ(status["phase"], "training");
  EXPECT_TRUE(status["told"]);
  EXPECT_LT(status["age_seconds"], 30);
  EXPECT_EQ(status["generation"], 1);
  EXPECT_GT(status["samples_per_second"], 0);
  EXPECT_NE(std::string{status["holder"]}.find("pid " + std::to_string(process_->pid())),
            std::string::npos);
  ASSERT_EQ(status["ranks"].size(), 2U);
  for (const auto& rank : status["ranks"]) {
    EXPECT_EQ(rank["pid"], process_->worker_of(rank["rank"]).value_or(-1));
    EXPECT_TRUE(rank["alive"]);
    EXPECT_GT(rank["committed"], 0);
  }
  EXPECT_GT(ask_json({"runs"})[0]["iterations"], 0);
  const auto text = ask({"status"});
  EXPECT_NE(text.out.find(": running (pid "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" ago\n"), std::string::npos) << text.out;
  std::printf("%s", text.out.c_str());

  process_->signal(SIGTERM);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 143) << done.err;
  status = ask_json({"status"});
  EXPECT_EQ(status["status"], "stopped");
  EXPECT_EQ(status["phase"], "ended");
  EXPECT_EQ(status["iteration"], done.summary["iterations"]);
  EXPECT_EQ(status["holder"], nullptr);
}

TEST_F(forensics, the_last_words_of_a_run_that_was_killed_are_called_that) {
  begin({"train.epochs=2000"});
  ASSERT_TRUE(eventually([&] { return ask_json({"status"}).value("iteration", 0) > 0; }));
  process_.reset();  // SIGKILL
  const auto status = ask_json({"status"});
  EXPECT_EQ(status["status"], "interrupted");
  EXPECT_EQ(status["holder"], nullptr);
  EXPECT_GT(status["iteration"], 0);
  EXPECT_EQ(ask_json({"runs"})[0]["iterations"], status["iteration"]);
  EXPECT_NE(ask({"status"}).out.find("interrupted; its last word is of "), std::string::npos);
}

TEST_F(forensics, C07_a_slow_rank_is_named_in_events_and_status_with_its_figure) {
  begin({"train.epochs=2000"}, slow_rank_1);
  ASSERT_TRUE(eventually([&] { return !straggler_texts().empty(); })) << err();
  const auto text = straggler_texts().front();
  EXPECT_NE(text.find("since iteration "), std::string::npos) << text;
  json status;
  ASSERT_TRUE(eventually([&] {
    status = ask_json({"status"});
    return status["stragglers"].size() == 1;
  })) << status.dump(2);
  EXPECT_EQ(status["stragglers"][0]["rank"], 1);
  EXPECT_GT(status["stragglers"][0]["compute_ms"], 70);
  EXPECT_GT(status["stragglers"][0]["compute_ms"],
            2 * double{status["stragglers"][0]["others_ms"]});
  EXPECT_FALSE(status["stragglers"][0]["replaced"]);
  EXPECT_NE(ask({"status"}).out.find("straggler: "), std::string::npos);
  process_->signal(SIGTERM);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 143) << done.err;
  EXPECT_EQ(done.summary["recoveries"].size(), 0U) << "it was to be reported alone";
}

TEST_F(forensics, C07_a_slow_rank_is_replaced_where_the_scenario_says_so_and_weights_match) {
  const std::string end = "train.max_iterations=300";
  begin({end, "supervision.on_straggler=\"replace\""}, slow_rank_1);
  const auto done = finish();
  ASSERT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
  const auto& recovery = done.summary["recoveries"][0];
  EXPECT_EQ(recovery["rank"], 1);
  EXPECT_EQ(std::string{recovery["cause"]}.rfind("straggler: computes for ", 0), 0U) << recovery;
  EXPECT_EQ(recovery["replacement"], "spare");
  EXPECT_EQ(recovery["source"], "survivor:0");
  EXPECT_EQ(recovery["lost_iterations"], 0);
  EXPECT_EQ(done.summary["generations"], 2);
  const auto told = straggler_texts();
  ASSERT_EQ(told.size(), 2U) << done.out;
  EXPECT_TRUE(told[0].starts_with("computes for ")) << told[0];
  EXPECT_EQ(told[1], "a new process takes its place");
  EXPECT_EQ(ask_json({"postmortem"})["culprits"], json::array({1}));
  const scratch_folder quiet;
  const auto fault_free = train(quiet.path(), small_scenario(quiet.path()), {end});
  EXPECT_EQ(fault_free.exit_code, 0) << fault_free.err;
  EXPECT_EQ(done.summary["weights_digest"], fault_free.summary["weights_digest"]);
}

// As with one whose data or place is slow: each process of rank 1 is so from its first iterations.
TEST_F(forensics, a_rank_that_a_new_process_does_not_help_is_only_reported_from_then_on) {
  begin({"train.epochs=2000", "supervision.on_straggler=\"replace\""}, R"(
[[chaos]]
kind = "slow"
rank = 1
delay = "40ms"
every = 10
)");
  ASSERT_TRUE(eventually([&] { return straggler_texts().size() >= 3; })) << err();
  const auto told = straggler_texts();
  EXPECT_EQ(told[1], "a new process takes its place");
  EXPECT_TRUE(told[2].ends_with("; a new process has not helped, so it stays")) << told[2];
  json status;
  // The window after it was named, too: it would be replaced then, if at all.
  ASSERT_TRUE(eventually([&] {
    status = ask_json({"status"});
    const auto& slow = status["stragglers"];
    const std::uint64_t since = slow.empty() ? 0 : std::uint64_t{slow[0]["since_iteration"]};
    return since > 0 && status["iteration"] > since + 120;
  })) << status.dump(2);
  EXPECT_EQ(status["stragglers"][0]["replaced"], true);
  EXPECT_EQ(straggler_texts().size(), 3U);
  process_->signal(SIGTERM);
  const auto done = collect(*process_, folder_.path());
  EXPECT_EQ(done.exit_code, 143) << done.err;
  EXPECT_EQ(done.summary["recoveries"].size(), 1U) << done.summary.dump(2);
}

}  // namespace
}  // namespace ftrt::test
