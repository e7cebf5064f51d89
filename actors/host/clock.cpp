#include <actors/host/clock.hpp>
#include <algorithm>
#include <atomic>
#include <ctime>
#include <ftrt/error.hpp>
#include <mutex>
#include <vector>

namespace ftrt::host {
namespace {

using std::chrono::nanoseconds;

struct leap {
  nanoseconds at;     // of the system's monotonic clock
  nanoseconds ahead;  // how far this one was ahead from then on
};

// 50 years: what 64 bits of nanoseconds hold of both a clock and its leaps.
constexpr nanoseconds furthest = std::chrono::hours{50 * 8766};

std::mutex leaping;
std::vector<leap> leaps;  // guarded by it
std::atomic<std::int64_t> monotonic_ahead_ns{0};
std::atomic<std::int64_t> wall_ahead_ns{0};
std::atomic<std::int64_t> held_at_ns{0};  // 0: the system's clock goes on

nanoseconds system_monotonic() {
  if (const auto held = held_at_ns.load(std::memory_order_relaxed)) return nanoseconds{held};
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds{now.tv_sec} + nanoseconds{now.tv_nsec};
}

}  // namespace

nanoseconds monotonic_now() {
  return system_monotonic() + nanoseconds{monotonic_ahead_ns.load(std::memory_order_relaxed)};
}

std::chrono::system_clock::time_point wall_now() {
  const nanoseconds ahead{wall_ahead_ns.load(std::memory_order_relaxed)};
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(ahead);
}

std::int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall_now().time_since_epoch())
      .count();
}

nanoseconds as_seen_here(nanoseconds stamp) {
  if (monotonic_ahead_ns.load(std::memory_order_relaxed) == 0) return stamp;
  const std::lock_guard lock{leaping};
  nanoseconds ahead{0};
  for (const auto& each : leaps) {
    if (each.at <= stamp) ahead = each.ahead;
  }
  return stamp + ahead;
}

held_clock::held_clock() {
  FTRT_ASSERT(held_at_ns == 0);
  held_at_ns = system_monotonic().count();
}

held_clock::~held_clock() {
  held_at_ns = 0;
}

void held_clock::advance(nanoseconds by) {
  held_at_ns += by.count();
}

void jump(nanoseconds by) {
  const std::lock_guard lock{leaping};
  const nanoseconds step = std::clamp(by, -furthest, furthest);
  const nanoseconds wall{wall_ahead_ns.load(std::memory_order_relaxed)};
  wall_ahead_ns.store(std::clamp(wall + step, -furthest, furthest).count(),
                      std::memory_order_relaxed);
  if (step.count() < 0) return;
  const nanoseconds before{monotonic_ahead_ns.load(std::memory_order_relaxed)};
  const auto ahead = std::min(before + step, furthest);
  leaps.push_back({system_monotonic(), ahead});
  monotonic_ahead_ns.store(ahead.count(), std::memory_order_relaxed);
}

}  // namespace ftrt::host
