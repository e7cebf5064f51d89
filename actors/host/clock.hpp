#pragma once

#include <chrono>
#include <cstdint>

// The seam through which control reads the time: what it decides by goes through here, so that
// chaos can let it jump. Any thread.
namespace ftrt::host {

// CLOCK_MONOTONIC, the clock that workers stamp their progress with and all deadlines run on; and
// as much further as it was told to jump.
[[nodiscard]] std::chrono::nanoseconds monotonic_now();

// Unix time: for people, never for decisions.
[[nodiscard]] std::chrono::system_clock::time_point wall_now();
[[nodiscard]] std::int64_t unix_now_ms();  // in milliseconds

// What monotonic_now() would have said when the system's own clock said `stamp`: for the stamps of
// workers, whose clocks do not jump.
[[nodiscard]] std::chrono::nanoseconds as_seen_here(std::chrono::nanoseconds stamp);

// Chaos: forward both clocks jump, as when a machine slept through it; backward the wall clock
// alone, as when somebody sets it. For the whole process, since time is. No clock gets further than
// decades away.
void jump(std::chrono::nanoseconds by);

// For tests: while one lives, the monotonic clock stands still but for what it is told to advance,
// so that hours pass in no time and always the same way. One at a time; workers' stamps stay those
// of the system's clock, which is behind.
class held_clock {
 public:
  held_clock();
  ~held_clock();
  held_clock(const held_clock&) = delete;
  held_clock& operator=(const held_clock&) = delete;
  void advance(std::chrono::nanoseconds by);
};

}  // namespace ftrt::host
