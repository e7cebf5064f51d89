#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tests/actors/control/virtual_run.hpp>

// What tests of virtual runs have in common.
namespace ftrt::actors::testing {

inline constexpr rank_id r0{0};
inline constexpr rank_id r1{1};
inline const std::array<std::string, 6> every_actor{
    "host_supervisor", "run_supervisor", "checkpoint", "metrics", "trainer:0", "trainer:1"};

inline void expect_whole(virtual_run& run) {
  const auto end = run.to_its_end();
  EXPECT_EQ(end.outcome, recovery::run_outcome::completed) << end.error;
  EXPECT_EQ(run.workers().committed(), 30U);
  EXPECT_FALSE(run.workers().had_state_lost()) << "a committed iteration was given up";
}

// Limits of hours, and nothing else that would find anything out.
inline void wait_for_hours(scenario& values) {
  using namespace std::chrono_literals;
  auto& limits = values.supervision;
  limits.start_timeout = 1h;
  limits.park_timeout = 2h;
  limits.join_timeout = 20min;
  limits.stop_timeout = 2h;
  limits.hang_detection = false;
}

}  // namespace ftrt::actors::testing
