#include <gtest/gtest.h>

#include <actors/host/clock.hpp>

namespace ftrt::host {
namespace {

using namespace std::chrono_literals;

std::chrono::nanoseconds system_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// One test, since the clock is the process's: it only goes on from where a jump left it.
TEST(clock, jumps_forward_as_a_whole_and_back_on_the_wall_alone) {
  const auto stamp_before = system_now();
  EXPECT_EQ(as_seen_here(stamp_before), stamp_before) << "no jump yet";

  const auto monotonic = monotonic_now();
  const auto wall = unix_now_ms();
  jump(8h);
  EXPECT_GE(monotonic_now() - monotonic, 8h);
  EXPECT_LT(monotonic_now() - monotonic, 8h + 1min);
  EXPECT_GE(unix_now_ms() - wall, 8 * 3'600'000);
  const auto stamp_after = system_now();
  EXPECT_EQ(as_seen_here(stamp_before), stamp_before) << "what was stamped then is old now";
  EXPECT_EQ(as_seen_here(stamp_after), stamp_after + 8h);

  const auto later = monotonic_now();
  jump(-24h);
  EXPECT_GE(monotonic_now(), later) << "it never goes back";
  EXPECT_LT(monotonic_now() - later, 1min);
  EXPECT_LT(unix_now_ms(), wall);

  jump(1h);
  EXPECT_EQ(as_seen_here(stamp_after), stamp_after + 8h);
  const auto newest = system_now();
  EXPECT_EQ(as_seen_here(newest), newest + 9h);
}

TEST(clock, gets_no_further_than_its_numbers_do) {
  for (int i = 0; i < 1000; ++i) jump(8760h);
  const auto now = monotonic_now();
  EXPECT_GT(now, 0ns);
  EXPECT_GT(now + 8760h, now);
  EXPECT_GT(unix_now_ms(), 0);
}

}  // namespace
}  // namespace ftrt::host
