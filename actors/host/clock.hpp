#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace ftrt::host {

// CLOCK_MONOTONIC, the clock that workers stamp their progress with and all deadlines run on.
[[nodiscard]] inline std::chrono::nanoseconds monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

// Unix time in milliseconds: for people, never for decisions.
[[nodiscard]] inline std::int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace ftrt::host
