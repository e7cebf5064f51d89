// Spares and the zygote in real runs: what they save, and that their own deaths cost nothing.

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

constexpr const char* kill_rank_1 = "[[chaos]]\nkind = \"kill\"\nrank = 1\nat_iteration = ";

class spare_run : public ::testing::Test {
 protected:
  std::string fault_free_digest() {
    const scratch_folder quiet;
    const auto done = train(quiet.path(), small_scenario(quiet.path()), long_enough({}));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.summary.value("weights_digest", "none");
  }

  // So long that a test can act on it from outside.
  static std::vector<std::string> long_enough(std::vector<std::string> sets) {
    sets.emplace_back("train.epochs=60");
    return sets;
  }

  std::unique_ptr<ftrt_process> start(const std::string& chaos = "",
                                      std::vector<std::string> sets = {}) {
    const auto scenario = small_scenario(folder_.path(), chaos);
    return std::make_unique<ftrt_process>(
        folder_.path(), training_arguments(folder_.path(), scenario, long_enough(std::move(sets))));
  }

  static bool has_spare(const ftrt_process& process) {
    return eventually([&] {
      const auto spares = process.descendants_named("ftrt-spare");
      if (spares.size() != 1) return false;
      const auto title = read_file("/proc/" + std::to_string(spares.front()) + "/cmdline");
      return title.starts_with("ftrt-spare (ready)");
    });
  }

  // The digest is that of no fault, and so many recoveries are on record.
  void expect_untouched(const finished_run& done, std::size_t recoveries) {
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["recoveries"].size(), recoveries) << done.summary.dump(2);
    EXPECT_EQ(done.summary["generations"], 1 + recoveries);
    EXPECT_EQ(done.summary["weights_digest"], fault_free_digest());
  }

  scratch_folder folder_;
};

TEST_F(spare_run, a_killed_rank_goes_on_in_the_spare_and_weights_match) {
  auto process = start();
  ASSERT_TRUE(has_spare(*process)) << process->err();
  const auto spare = process->descendants_named("ftrt-spare").front();
  std::optional<pid_t> worker;
  ASSERT_TRUE(eventually([&] { return (worker = process->worker_of(1)).has_value(); }));
  ::kill(*worker, SIGKILL);
  EXPECT_TRUE(eventually([&] { return process->worker_of(1).value_or(*worker) != *worker; }));
  const auto successor = process->worker_of(1);
  const auto done = collect(*process, folder_.path());
  expect_untouched(done, 1);
  const auto& recovery = done.summary["recoveries"][0];
  EXPECT_EQ(successor, spare);
  EXPECT_EQ(recovery["replacement"], "spare");
  EXPECT_EQ(recovery["source"], "survivor:0");
}

TEST_F(spare_run, without_spares_a_killed_rank_is_forked) {
  auto process = start(std::string{kill_rank_1} + "300\n", {"supervision.spares=0"});
  const auto done = collect(*process, folder_.path());
  expect_untouched(done, 1);
  EXPECT_EQ(done.summary["recoveries"][0]["replacement"], "fork");
}

TEST_F(spare_run, a_killed_spare_is_replaced_in_the_same_generation) {
  auto process = start();
  ASSERT_TRUE(has_spare(*process)) << process->err();
  const auto spare = process->descendants_named("ftrt-spare").front();
  ::kill(spare, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto now = process->descendants_named("ftrt-spare");
    return now.size() == 1 && now.front() != spare;
  })) << process->err();
  expect_untouched(collect(*process, folder_.path()), 0);
}

TEST_F(spare_run, a_killed_zygote_is_replaced_and_a_rank_killed_later_still_recovers) {
  auto process = start("", {"supervision.spares=0"});
  ASSERT_TRUE(eventually([&] { return process->worker_of(1).has_value(); })) << process->err();
  const auto zygotes = process->descendants_named("ftrt-worker");
  ASSERT_EQ(zygotes.size(), 1U);
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << process->err();
  // Its children are nobody's descendants afterwards.
  const auto worker = process->worker_of(1);
  ASSERT_TRUE(worker.has_value());
  ::kill(zygotes.front(), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto now = process->descendants_named("ftrt-worker");
    return now.size() == 1 && now.front() != zygotes.front();
  })) << process->err();
  ASSERT_EQ(::kill(*worker, 0), 0) << "a rank needs no zygote to live";
  ::kill(*worker, SIGKILL);
  const auto done = collect(*process, folder_.path());
  expect_untouched(done, 1);
  EXPECT_EQ(done.summary["recoveries"][0]["replacement"], "fork") << "from the new zygote";
}

// Without a spare, so that the lost rank needs that very zygote.
TEST_F(spare_run, a_stopped_zygote_is_replaced_when_a_rank_needs_it_and_weights_match) {
  auto process = start("", {"supervision.spares=0"});
  ASSERT_TRUE(eventually([&] { return checkpoints_of(folder_.path()) >= 1; })) << process->err();
  const auto zygotes = process->descendants_named("ftrt-worker");
  ASSERT_EQ(zygotes.size(), 1U);
  const auto worker = process->worker_of(1);
  ASSERT_TRUE(worker.has_value());
  ::kill(zygotes.front(), SIGSTOP);
  ::kill(*worker, SIGKILL);
  const auto done = collect(*process, folder_.path());
  expect_untouched(done, 1);
  EXPECT_LT(done.summary["recoveries"][0]["resumed_ms"], 15000.0 * slowness);
  const auto events = read_file(only_run(folder_.path()) / "events.jsonl");
  EXPECT_NE(events.find("the zygote was stopped and was killed; it was replaced"),
            std::string::npos);
}

// With one, the rank goes on at once, and the next spare finds the zygote out.
TEST_F(spare_run, a_stopped_zygote_costs_nothing_while_there_is_a_spare) {
  auto process = start();
  ASSERT_TRUE(has_spare(*process)) << process->err();
  const auto zygotes = process->descendants_named("ftrt-worker");
  ASSERT_EQ(zygotes.size(), 1U);
  const auto worker = process->worker_of(1);
  ASSERT_TRUE(worker.has_value());
  ::kill(zygotes.front(), SIGSTOP);
  ::kill(*worker, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto now = process->descendants_named("ftrt-worker");
    return now.size() == 1 && now.front() != zygotes.front();
  })) << process->err();
  const auto done = collect(*process, folder_.path());
  expect_untouched(done, 1);
  EXPECT_EQ(done.summary["recoveries"][0]["replacement"], "spare");
}

}  // namespace
}  // namespace ftrt::test
