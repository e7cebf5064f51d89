// The actors of a run, whole and real, in virtual time: every step at which one of them can die,
// and whatever else goes wrong meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <tests/actors/control/virtual_checks.hpp>

namespace ftrt::actors::testing {
namespace {

using namespace std::chrono_literals;
using recovery::run_outcome;

#ifdef FTRT_SANITIZED
constexpr std::uint64_t seeds = 100;  // sanitized code is slow
#else
constexpr std::uint64_t seeds = 500;
#endif

TEST(virtual_deaths, a_run_without_faults_takes_its_iterations_and_no_more) {
  virtual_run run;
  expect_whole(run);
  EXPECT_LT(run.elapsed(), 2s);
  EXPECT_EQ(run.board().summary().checkpoints_committed, 3U);
  EXPECT_EQ(run.workers().orders().size(), 2U);
}

// ---- any actor dies -----------------------------------------------------------------------------

// One worker dies in the middle, so that these steps are those of a start, of training, of a
// recovery and of an end.
void lose_rank_1_at_12(virtual_run& run) {
  if (run.workers().committed() == 12 && run.workers().orders().size() == 2) {
    run.workers().die(r1, "killed by signal 9 (SIGKILL)");
  }
}

// Up to the end, with `name` killed after `step` steps. False: it had ended before.
bool end_with_a_death(virtual_run& run, const std::string& name, std::uint64_t step) {
  const bool reached = run.until([&] {
    lose_rank_1_at_12(run);
    return run.end() || run.steps() == step;
  });
  EXPECT_TRUE(reached);
  if (run.end()) return false;
  run.kill(name);
  const bool ended = run.until([&] {
    lose_rank_1_at_12(run);
    return run.end().has_value();
  });
  EXPECT_TRUE(ended);
  return true;
}

class any_actor : public ::testing::TestWithParam<std::string> {};

TEST_P(any_actor, may_die_alone_at_any_step_of_a_run_and_nothing_is_lost) {
  std::uint64_t step = 1;
  for (; step < 5000; ++step) {
    SCOPED_TRACE("after step " + std::to_string(step));
    virtual_run run;
    if (!end_with_a_death(run, GetParam(), step)) break;
    expect_whole(run);
    const auto recoveries = run.board().summary().recoveries;
    EXPECT_EQ(run.workers().orders().size(), 3U) << "no death of an actor is one of a rank";
    EXPECT_EQ(recoveries.size(), 1U);
    for (const auto& each : recoveries) {
      EXPECT_EQ(each.lost_iterations, 0U);
      EXPECT_EQ(each.source, "survivor:0");
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(step, 100U) << "a run has more steps than that";
}

INSTANTIATE_TEST_SUITE_P(each, any_actor, ::testing::ValuesIn(every_actor), [](const auto& of) {
  auto name = of.param;
  std::ranges::replace(name, ':', '_');
  return name;
});

// A seed draws what goes wrong when, and in which order things happen that are due at one moment.
class seeded_run {
 public:
  explicit seeded_run(std::uint64_t seed) : random_(seed), run_(patience, 30, seed) {
    for (std::uint64_t faults = below(7); faults > 0; --faults) at_.push_back(1 + below(250));
    std::ranges::sort(at_);
  }

  virtual_run& play() {
    for (const auto step : at_) {
      if (!run_.until([&] { return run_.end() || run_.steps() >= step; }) || run_.end()) break;
      strike();
    }
    return run_;
  }
  // What only workers held may be lost with all of them.
  [[nodiscard]] bool struck_workers() const { return struck_workers_; }
  [[nodiscard]] bool was_stopped() const { return was_stopped_; }

 private:
  // All of it may fall into one iteration, or into a stop.
  static void patience(scenario& values) {
    values.supervision.max_failures_without_progress = 100;
    values.supervision.stop_timeout = 1h;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void strike() {
    const auto kind = below(20);
    const rank_id rank{static_cast<std::uint32_t>(below(2))};
    if (kind < 12) {
      run_.kill(every_actor[below(every_actor.size())]);
    } else if (kind < 16) {
      struck_workers_ = true;
      run_.workers().die(rank, "killed");
      if (kind == 15) run_.workers().die(rank_id{1 - rank.value()}, "killed");
    } else if (kind < 19) {
      constexpr std::array words{word::hello, word::parked, word::joined, word::commit,
                                 word::finished};
      struck_workers_ = true;
      run_.workers().silence(rank, words[below(words.size())]);
    } else {
      was_stopped_ = true;
      run_.board().request_stop("somebody");
    }
  }

  std::mt19937_64 random_;
  virtual_run run_;
  std::vector<std::uint64_t> at_;
  bool struck_workers_ = false;
  bool was_stopped_ = false;
};

// FTRT_SEED plays one, FTRT_SEEDS so many from there.
TEST(virtual_deaths, whatever_dies_or_falls_silent_in_whatever_order_the_run_comes_to_its_end) {
  const auto from_environment = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const auto first = from_environment("FTRT_SEED", 1);
  const auto count =
      from_environment("FTRT_SEEDS", std::getenv("FTRT_SEED") != nullptr ? 1 : seeds);
  std::uint64_t recoveries = 0;
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("FTRT_SEED=" + std::to_string(seed));
    seeded_run drawn{seed};
    virtual_run& run = drawn.play();
    const auto end = run.to_its_end(10min);
    EXPECT_EQ(end.error, "");
    const bool stopped = drawn.was_stopped() && end.outcome == run_outcome::stopped;
    EXPECT_TRUE(stopped || end.outcome == run_outcome::completed);
    if (!stopped) {
      EXPECT_EQ(run.board().latest().iteration, 30U);
    }
    if (!drawn.struck_workers()) {
      EXPECT_FALSE(run.workers().had_state_lost());
    }
    const auto summary = run.board().summary();
    recoveries += summary.recoveries.size();
    restarts += summary.actor_restarts.size();
  }
  if (count < seeds) return;
  EXPECT_GT(recoveries, count / 4);
  EXPECT_GT(restarts, count / 2);
}

// ---- C41: the end -------------------------------------------------------------------------------

TEST(virtual_deaths, C41_at_any_step_all_actors_leave_when_asked_to_and_wait_for_nothing) {
  std::uint64_t step = 1;
  for (bool ended = false; !ended && !HasFailure(); ++step) {
    SCOPED_TRACE("after step " + std::to_string(step));
    virtual_run run;
    run.until([&] {
      lose_rank_1_at_12(run);
      return run.end() || run.steps() == step;
    });
    ended = run.end().has_value();
    const auto time = run.elapsed();
    EXPECT_EQ(run.take_down(), 0U);
    EXPECT_EQ(run.elapsed(), time) << "not even for an alarm";
  }
  EXPECT_GT(step, 100U);
}

TEST(virtual_deaths, C41_alarms_that_are_hours_away_keep_nobody) {
  virtual_run run{wait_for_hours};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().silence(r1, word::parked);
  run.workers().die(r0, "killed");
  ASSERT_TRUE(run.until([&] { return run.workers().orders().size() == 3; }));
  run.board().request_stop("somebody");
  run.pass(1s);
  EXPECT_EQ(run.take_down(), 0U);
}

}  // namespace
}  // namespace ftrt::actors::testing
