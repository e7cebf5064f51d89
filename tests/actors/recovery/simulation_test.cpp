#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <tests/actors/recovery/simulator.hpp>
#include <thread>

using namespace ftrt::recovery;

namespace {

#ifdef FTRT_SANITIZED
// Sanitized code is slow: a sample of what the other builds go through.
constexpr std::uint64_t small_worlds = 10'000;
constexpr std::uint32_t large_world = 500;
constexpr std::uint64_t large_world_faults = 50;
constexpr bool fewer = true;
#else
constexpr std::uint64_t small_worlds = 1'060'000;  // of which every twentieth is of one rank
constexpr std::uint32_t large_world = 10'000;
constexpr std::uint64_t large_world_faults = 1'000;
constexpr bool fewer = false;
#endif

constexpr const char* fewer_said = " (a hundredth, for this build is sanitized and slow)";

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// "0,3,": faults by number.
std::optional<std::vector<std::uint64_t>> kept_faults() {
  const char* text = std::getenv("FTRT_SIM_FAULTS");
  if (text == nullptr) return std::nullopt;
  std::vector<std::uint64_t> kept;
  for (std::string rest = text; !rest.empty(); rest.erase(0, rest.find(',') + 1)) {
    kept.push_back(std::stoull(rest));
    if (rest.find(',') == std::string::npos) break;
  }
  return kept;
}

std::optional<std::string> broken_law(const sim::schedule& plan) {
  try {
    const sim::result r = sim::simulator(plan).run();
    if (plan.trace)
      std::cerr << "outcome " << static_cast<int>(r.outcome) << " " << r.error << '\n';
    return std::nullopt;
  } catch (const sim::law_broken& broken) {
    return broken.text;
  }
}

// What came of many schedules; summed up by each thread alone.
struct tally {
  std::array<std::uint64_t, 3> outcomes{};
  std::uint64_t of_several_ranks = 0;
  sim::result sum;

  void add(const sim::result& r) {
    ++outcomes[static_cast<std::size_t>(r.outcome)];
    if (r.ranks > 1) ++of_several_ranks;
    sum.steps += r.steps;
    sum.kills += r.kills;
    sum.recoveries += r.recoveries;
    sum.rollbacks += r.rollbacks;
    sum.from_snapshots += r.from_snapshots;
    sum.from_checkpoints += r.from_checkpoints;
    sum.damages += r.damages;
    sum.mended += r.mended;
    sum.left_out += r.left_out;
    sum.stragglers += r.stragglers;
  }
  void add(const tally& other) {
    for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i] += other.outcomes[i];
    of_several_ranks += other.of_several_ranks;
    sum.steps += other.sum.steps;
    sum.kills += other.sum.kills;
    sum.recoveries += other.sum.recoveries;
    sum.rollbacks += other.sum.rollbacks;
    sum.from_snapshots += other.sum.from_snapshots;
    sum.from_checkpoints += other.sum.from_checkpoints;
    sum.damages += other.sum.damages;
    sum.mended += other.sum.mended;
    sum.left_out += other.sum.left_out;
    sum.stragglers += other.sum.stragglers;
  }
};

// An assertion of the machine's ends the process: say first which schedule it was.
thread_local std::uint64_t seed_under_test = 0;

void name_the_seed(int) {
  std::array<char, 160> text{};
  const int length = std::snprintf(
      text.data(), text.size(), "replay: FTRT_SIM_SEED=%llu recovery_simulation_test '%s'\n",
      static_cast<unsigned long long>(seed_under_test), "--gtest_filter=*laws*");
  if (::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length)) < 0) ::_exit(1);
}

// Seeds first .. first+count-1, by two threads. The smallest seed that breaks a law, if one does.
class many_worlds {
 public:
  many_worlds(std::uint64_t first, std::uint64_t count) : next_(first), end_(first + count) {
    std::thread other([this] { work(); });
    work();
    other.join();
  }
  [[nodiscard]] const tally& total() const { return total_; }
  [[nodiscard]] std::optional<std::uint64_t> failed() const { return failed_; }

 private:
  static constexpr std::uint64_t at_once = 256;

  void work() {
    tally mine;
    std::uint64_t begin = 0;
    while ((begin = next_.fetch_add(at_once)) < end_) {
      for (std::uint64_t seed = begin; seed < std::min(begin + at_once, end_); ++seed) {
        if (!try_one(seed, mine)) return;
      }
    }
    const std::lock_guard lock{mutex_};
    total_.add(mine);
  }

  bool try_one(std::uint64_t seed, tally& mine) {
    seed_under_test = seed;
    try {
      mine.add(sim::simulator({.seed = seed}).run());
      return true;
    } catch (const sim::law_broken&) {
      next_ = end_;
      const std::lock_guard lock{mutex_};
      failed_ = std::min(failed_.value_or(seed), seed);
      return false;
    }
  }

  std::atomic<std::uint64_t> next_;
  std::uint64_t end_;
  std::mutex mutex_;
  tally total_;
  std::optional<std::uint64_t> failed_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

// FTRT_SIM_SEED=n replays one schedule with a trace (FTRT_SIM_FAULTS, FTRT_SIM_NOISE=0: a shrunk
// one); FTRT_SIM_SCHEDULES and FTRT_SIM_FIRST_SEED choose how many and which.
TEST(recovery_simulation, the_laws_of_recovery_hold_in_every_schedule) {
  if (const std::uint64_t only = from_environment("FTRT_SIM_SEED", 0); only != 0) {
    const sim::schedule plan{.seed = only,
                             .noise = from_environment("FTRT_SIM_NOISE", 1) != 0,
                             .kept = kept_faults(),
                             .trace = true};
    const auto broken = broken_law(plan);
    ASSERT_FALSE(broken.has_value()) << *broken;
    return;
  }
  const std::uint64_t first = from_environment("FTRT_SIM_FIRST_SEED", 1);
  const std::uint64_t count = from_environment("FTRT_SIM_SCHEDULES", small_worlds);
  ::signal(SIGABRT, name_the_seed);
  const auto begin = std::chrono::steady_clock::now();
  const many_worlds worlds(first, count);
  if (worlds.failed()) {
    const auto smallest = sim::shrink({.seed = *worlds.failed()});
    FAIL() << broken_law({.seed = *worlds.failed()}).value_or("it does not fail again")
           << "\nshrunk: " << broken_law(smallest).value_or("it does not fail again")
           << "\nreplay: " << sim::replay_command(smallest);
  }
  const tally& t = worlds.total();
  std::cout << count << " schedules from seed " << first << (fewer ? fewer_said : "") << ", "
            << t.of_several_ranks << " of them with 2 to 5 ranks, in " << seconds_since(begin)
            << " s: " << t.outcomes[0] << " completed, " << t.outcomes[1] << " stopped, "
            << t.outcomes[2] << " failed; " << t.sum.steps << " steps, " << t.sum.kills
            << " deaths, " << t.sum.recoveries << " recoveries (" << t.sum.from_snapshots
            << " from snapshots, " << t.sum.from_checkpoints << " from checkpoints), "
            << t.sum.rollbacks << " rollbacks; " << t.sum.damages << " damaged states, "
            << t.sum.mended << " such runs ended with the right weights; " << t.sum.left_out
            << " poisoned windows left out; " << t.sum.stragglers << " stragglers replaced\n";
  // A simulation in which little goes wrong proves little, and one in which all fails, too.
  EXPECT_GE(t.of_several_ranks, count - count / 16);
  EXPECT_GT(t.outcomes[0], count / 2);
  EXPECT_GT(t.sum.kills, count / 2);
  EXPECT_GT(t.sum.recoveries, count / 4);
  EXPECT_GT(t.sum.rollbacks, count / 100);
  EXPECT_GT(t.sum.from_snapshots, count / 100);
  EXPECT_GT(t.sum.from_checkpoints, count / 1000);
  EXPECT_GT(t.sum.mended, count / 100);
  EXPECT_GT(t.sum.left_out, count / 100);
  EXPECT_GT(t.sum.stragglers, count / 100);
}

TEST(recovery_simulation, a_seed_gives_the_same_history_each_time) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    EXPECT_EQ(sim::simulator({.seed = seed}).run(), sim::simulator({.seed = seed}).run()) << seed;
}

// With snapshots that come out wrong, a law must break, and what is left of the schedule must still
// show it.
TEST(recovery_simulation, a_broken_law_is_found_and_its_schedule_shrinks) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && found < 5; ++seed) {
    const sim::schedule failing{.seed = seed, .sabotage = true};
    if (!broken_law(failing)) continue;
    ++found;
    const sim::schedule smallest = sim::shrink(failing);
    EXPECT_TRUE(broken_law(smallest).has_value()) << "seed " << seed;
    ASSERT_TRUE(smallest.kept.has_value());
    EXPECT_GE(smallest.kept->size(), 1u) << "without a fault nothing is restored";
    for (const std::uint64_t number : *smallest.kept) {
      std::vector<std::uint64_t> others = *smallest.kept;
      std::erase(others, number);
      sim::schedule smaller = smallest;
      smaller.kept = std::move(others);
      EXPECT_FALSE(broken_law(smaller).has_value()) << "fault " << number << " is not needed";
    }
    EXPECT_NE(sim::replay_command(smallest).find("FTRT_SIM_SEED=" + std::to_string(seed)),
              std::string::npos);
  }
  EXPECT_EQ(found, 5u);
}

TEST(recovery_simulation, ten_thousand_ranks_survive_a_thousand_faults) {
  const auto begin = std::chrono::steady_clock::now();
  sim::result r;
  const sim::schedule plan{
      .seed = 7, .noise = false, .ranks = large_world, .faults = large_world_faults};
  try {
    r = sim::simulator(plan).run();
  } catch (const sim::law_broken& broken) {
    FAIL() << broken.text.substr(0, 2000);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::cout << large_world << " ranks" << (fewer ? " (fewer, for this build is slow)" : "") << ", "
            << r.faults << " faults: " << r.kills << " deaths, " << r.generations
            << " generations, " << r.rollbacks << " rollbacks, " << r.steps << " steps in "
            << seconds_since(begin) << " s, at most " << usage.ru_maxrss / 1024 << " MiB\n";
  EXPECT_EQ(r.outcome, run_outcome::stopped);
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.faults, large_world_faults);
  EXPECT_GE(r.generations, large_world_faults / 20);
}
