#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <tests/actors/recovery/simulator.hpp>

using namespace ftrt::recovery;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

}  // namespace

// FTRT_SIM_SEED=n replays one schedule with a trace; FTRT_SIM_SCHEDULES and FTRT_SIM_FIRST_SEED
// choose how many and which.
TEST(recovery_simulation, the_laws_of_recovery_hold_in_every_schedule) {
  const std::uint64_t only = from_environment("FTRT_SIM_SEED", 0);
  if (only != 0) {
    try {
      const sim::result r = sim::simulator(only, true).run();
      std::cerr << "outcome " << static_cast<int>(r.outcome) << " " << r.error << '\n';
      SUCCEED();
    } catch (const sim::law_broken& broken) {
      FAIL() << broken.text;
    }
    return;
  }
#ifdef FTRT_SANITIZED
  constexpr std::uint64_t schedules = 4000;
#else
  constexpr std::uint64_t schedules = 50000;
#endif
  const std::uint64_t first = from_environment("FTRT_SIM_FIRST_SEED", 1);
  const std::uint64_t count = from_environment("FTRT_SIM_SCHEDULES", schedules);
  std::uint64_t outcomes[3] = {0, 0, 0};
  std::uint64_t steps = 0, recoveries = 0, rollbacks = 0, kills = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    try {
      const sim::result r = sim::simulator(seed).run();
      ++outcomes[static_cast<std::size_t>(r.outcome)];
      steps += r.steps;
      recoveries += r.recoveries;
      rollbacks += r.rollbacks;
      kills += r.kills;
    } catch (const sim::law_broken& broken) {
      FAIL() << broken.text << "\nreplay with FTRT_SIM_SEED=" << seed;
    }
  }
  std::cout << count << " schedules from seed " << first << ": " << outcomes[0] << " completed, "
            << outcomes[1] << " stopped, " << outcomes[2] << " failed; " << steps << " steps, "
            << kills << " deaths, " << recoveries << " recoveries, " << rollbacks << " rollbacks\n";
  // A simulation in which little goes wrong proves little, and one in which all fails, too.
  EXPECT_GT(outcomes[0], count / 2);
  EXPECT_GT(kills, count / 2);
  EXPECT_GT(recoveries, count / 4);
  EXPECT_GT(rollbacks, count / 100);
}
