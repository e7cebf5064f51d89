#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace ftrt::actors {

// How soon, and how often, one actor may be restarted. Pure.
//
// The first few restarts come at once: an actor that dies now and then costs nothing. One that dies
// again and again waits, each time twice as long, with jitter that follows from the count, and
// after `most` restarts within `window` no more.
class restart_budget {
 public:
  using time_point = std::chrono::nanoseconds;  // monotonic

  restart_budget(std::uint64_t most, std::chrono::nanoseconds window,
                 std::chrono::nanoseconds longest_delay)
      : most_(most), window_(window), longest_delay_(longest_delay) {}

  // The delay before the restart that is due now; empty: the budget is spent.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next(time_point now);

 private:
  static constexpr std::uint64_t free_restarts = 5;  // within a second
  static constexpr std::chrono::milliseconds first_delay{10};

  std::uint64_t most_;
  std::chrono::nanoseconds window_;
  std::chrono::nanoseconds longest_delay_;
  std::deque<time_point> restarts_;  // within the window
};

}  // namespace ftrt::actors
