#pragma once

#include <actors/recovery/events.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ftrt::recovery {

// The limits that a scenario sets; see [supervision] in docs/scenario.md.
struct policy {
  std::uint32_t world_size = 0;
  std::uint64_t total_iterations = 0;
  std::uint64_t max_restarts = 1000;
  std::chrono::nanoseconds window{};
  std::uint64_t max_failures_without_progress = 5;
  std::chrono::nanoseconds backoff_initial{};
  std::chrono::nanoseconds backoff_max{};
  std::uint64_t backoff_seed = 1;  // jitter is a function of it and of the count of restarts
  std::chrono::nanoseconds start_timeout{};
  std::chrono::nanoseconds park_timeout{};
  std::chrono::nanoseconds join_timeout{};
  std::chrono::nanoseconds stop_timeout{};
};

}  // namespace ftrt::recovery
