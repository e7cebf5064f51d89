// Faults of every kind on a small run, what is expected of it, and what never happens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <ftrt/catalog.hpp>
#include <storage/event_log.hpp>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<event> events_of(const fs::path& folder) {
  const auto log = storage::read_event_log(only_run(folder) / "events.jsonl");
  return log ? log->events : std::vector<event>{};
}

// How often an entry's fault was caused, or that it was not.
std::ptrdiff_t count(const std::vector<event>& events, event::kind kind,
                     const std::string& subject) {
  return std::ranges::count_if(events, [&](const event& each) {
    return each.what == kind && each.subject == subject && each.rank < 0;
  });
}

std::string digest_without_faults() {
  static const std::string digest = [] {
    const scratch_folder folder;
    return train(folder.path(), small_scenario(folder.path())).summary["weights_digest"];
  }();
  return digest;
}

// Not so a process that nobody has reaped yet.
bool lives(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto end = stat.rfind(')');
  return end != std::string::npos && stat.substr(end, 3) != ") Z";
}

std::string entry(const std::string& text) {
  return "[[chaos]]\n" + text + "\n";
}

constexpr const char* the_same = "[expect]\nweights_digest = \"same_as_fault_free\"\n";

TEST(chaos, kill_supervisor_is_resumed_by_the_same_command_and_nothing_happens_twice) {
  const scratch_folder folder;
  const auto done = train(
      folder.path(),
      small_scenario(folder.path(),
                     the_same + entry("kind = \"kill\"\nrank = 1\nat_iteration = 200") +
                         entry("kind = \"kill_supervisor\"\nat_iteration = 400") +
                         entry("kind = \"nan\"\nrank = 0\ntarget = \"gradient\"\nat_iteration = "
                               "300") +
                         entry("kind = \"kill\"\nrank = 0\nin = \"stop\"")),
      {"train.on_non_finite=rollback"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("killed by SIGKILL; resuming "));
  EXPECT_EQ(done.summary["status"], "completed");
  EXPECT_EQ(done.summary["weights_digest"], digest_without_faults());
  const auto events = events_of(folder.path());
  for (const auto* subject : {"chaos[0]", "chaos[1]", "chaos[2]", "chaos[3]"}) {
    EXPECT_EQ(count(events, event::kind::chaos, subject), 1) << subject;
    EXPECT_EQ(count(events, event::kind::warning, subject), 0) << subject;
  }
  EXPECT_EQ(count(events, event::kind::run_started, "run"), 2);
  const auto catalogued = list_events(only_run(folder.path()));
  ASSERT_TRUE(catalogued);
  EXPECT_EQ(catalogued->size(), events.size()) << "what was on its way there is taken in";
  EXPECT_FALSE(fs::exists(only_run(folder.path()) / "fault-free")) << "nothing of it is left";
}

// Killed by order in the midst of one window again and again: on purpose, so the batch is not to
// blame.
TEST(chaos, kills_in_a_phase_are_no_poison_and_are_told_of_as_faults) {
  const scratch_folder folder;
  const auto once = entry("kind = \"kill\"\nrank = 1\nin = \"all_reduce\"\nat_iteration = 200");
  const auto done =
      train(folder.path(), small_scenario(folder.path(), the_same + once + once + once + once));
  ASSERT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(done.summary["recoveries"].size(), 4U) << done.summary.dump(2);
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["cause"], "chaos: killed by signal 9 (SIGKILL)");
  }
}

TEST(chaos, a_guarded_run_stops_in_order_when_its_command_is_asked_to) {
  const scratch_folder folder;
  const auto scenario =
      small_scenario(folder.path(), entry("kind = \"kill_supervisor\"\nat_iteration = 20000"));
  ftrt_process process{folder.path(),
                       training_arguments(folder.path(), scenario, {"train.epochs=2000"})};
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder.path()) >= 1; })) << process.err();
  process.signal(SIGTERM);
  const auto done = collect(process, folder.path());
  EXPECT_EQ(done.exit_code, 143) << done.err;
  EXPECT_EQ(done.summary["status"], "stopped");
  EXPECT_EQ(done.summary["checkpoints"]["last_iteration"], done.summary["iterations"]);
}

TEST(chaos, nothing_outlives_a_guard_that_is_killed) {
  const scratch_folder folder;
  const auto scenario =
      small_scenario(folder.path(), entry("kind = \"kill_supervisor\"\nat_iteration = 20000"));
  ftrt_process process{folder.path(),
                       training_arguments(folder.path(), scenario, {"train.epochs=2000"})};
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder.path()) >= 1; })) << process.err();
  const auto family = process.descendants();
  EXPECT_GE(family.size(), 4U) << "ftrt, the zygote, two ranks";
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return std::ranges::none_of(family, lives); }));
}

TEST(chaos, an_unmet_expectation_is_named_and_ends_with_1) {
  const scratch_folder folder;
  const auto done = train(
      folder.path(),
      small_scenario(folder.path(), "[expect]\nmin_recoveries = 2\nmax_lost_iterations = 0\n" +
                                        entry("kind = \"kill\"\nrank = 1\nat_iteration = "
                                              "200")));
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.err, HasSubstr("ftrt: expect.min_recoveries: expected at least 2, found 1"));
  EXPECT_EQ(done.summary["status"], "completed");
  const auto& expectations = done.summary["expectations"];
  ASSERT_EQ(expectations.size(), 2U);
  EXPECT_EQ(expectations[0]["name"], "max_lost_iterations");
  EXPECT_EQ(expectations[0]["met"], true);
  EXPECT_EQ(expectations[1]["expected"], "at least 2");
  EXPECT_EQ(expectations[1]["found"], "1");
  EXPECT_EQ(expectations[1]["met"], false);
}

TEST(chaos, C37_a_fault_after_the_last_iteration_is_refused_with_its_line) {
  const scratch_folder folder;
  const auto done =
      train(folder.path(),
            small_scenario(folder.path(), entry("kind = \"kill\"\nrank = 1\nat_iteration = 1261")));
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("small.toml:27: chaos[0].at_iteration: expected at most 1260, "
                                  "the run's last iteration, found 1261; the fault would never "
                                  "happen"));
}

TEST(chaos, an_entry_that_never_fired_is_named_at_the_end) {
  const scratch_folder folder;
  const auto done =
      train(folder.path(),
            small_scenario(folder.path(),
                           entry("kind = \"kill\"\nrank = 1\nin = \"join\"\nat_iteration = 100") +
                               entry("kind = \"kill\"\nrank = 1\nevery = \"1h\"")));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["recoveries"].size(), 0U);
  const auto events = events_of(folder.path());
  EXPECT_EQ(count(events, event::kind::warning, "chaos[1]"), 1);
  const auto missed = std::ranges::find_if(events, [](const event& each) {
    return each.what == event::kind::warning && each.subject == "chaos[0]";
  });
  ASSERT_NE(missed, events.end());
  EXPECT_EQ(missed->rank, 1);
  EXPECT_THAT(missed->text, HasSubstr("never happened: SIGKILL in join"));
}

TEST(chaos, kills_in_the_same_phase_again_and_again_cost_no_bit) {
  for (const std::string phase : {"all_reduce", "optimizer", "snapshot", "evaluate"}) {
    const scratch_folder folder;
    const auto done = train(
        folder.path(),
        small_scenario(folder.path(),
                       "[expect]\nmax_lost_iterations = 0\nmin_recoveries = 2\n" +
                           entry("kind = \"kill\"\nrank = 1\nevery = 300\nin = \"" + phase + "\"")),
        {"expect.weights_digest=" + digest_without_faults()});
    EXPECT_EQ(done.exit_code, 0) << phase << ": " << done.err << done.out;
  }
}

TEST(chaos, a_dead_zygote_and_a_jump_of_the_clocks_change_no_generation) {
  const scratch_folder folder;
  const auto done = train(
      folder.path(),
      small_scenario(folder.path(),
                     entry("kind = \"kill_zygote\"\nat_iteration = 100") +
                         entry("kind = \"clock_jump\"\nby = \"8h\"\nat_iteration = 400") +
                         entry("kind = \"clock_jump\"\nby = \"-48h\"\nat_iteration = 600") +
                         entry("kind = \"clock_jump\"\nby = \"2s\"\nevery = 50\nmax_count = 9")),
      {"supervision.hang_floor=500ms"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.summary["generations"], 1);
  EXPECT_EQ(done.summary["recoveries"].size(), 0U);
  EXPECT_EQ(done.summary["weights_digest"], digest_without_faults());
  EXPECT_LT(done.summary["wall_seconds"], 3600.0);
}

}  // namespace
}  // namespace ftrt::test
