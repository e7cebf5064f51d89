#include <gtest/gtest.h>

#include <actors/host/observer.hpp>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace ftrt::host {
namespace {

event numbered(std::uint64_t n) {
  event what;
  what.iteration = n;
  return what;
}

TEST(observer, events_arrive_in_order_and_all_are_delivered_before_it_is_gone) {
  std::vector<std::uint64_t> seen;
  {
    observer watcher{[&](const event& e) { seen.push_back(e.iteration); }, {}};
    for (std::uint64_t n = 0; n < 1000; ++n) watcher.post(numbered(n));
  }
  ASSERT_EQ(seen.size(), 1000U);
  for (std::uint64_t n = 0; n < 1000; ++n) EXPECT_EQ(seen[n], n);
}

TEST(observer, a_callback_that_blocks_delays_no_poster_and_the_loss_is_told) {
  std::latch blocked{1};
  std::latch release{1};
  std::atomic<std::size_t> seen{0};
  std::atomic<bool> told{false};
  {
    observer watcher{[&](const event& e) {
                       if (seen++ == 0) {
                         blocked.count_down();
                         release.wait();
                       }
                       if (e.text.find("dropped") != std::string::npos) told = true;
                     },
                     {}};
    watcher.post(numbered(0));
    blocked.wait();
    for (std::uint64_t n = 0; n < 10000; ++n) watcher.post(numbered(n));
    release.count_down();
  }
  EXPECT_TRUE(told);
  EXPECT_LT(seen, 5000U) << "the queue is bounded";
}

TEST(observer, a_callback_that_throws_harms_nobody_and_is_called_again) {
  std::size_t called = 0;
  {
    observer watcher{[&](const event&) {
                       ++called;
                       throw std::runtime_error{"the service's own bug"};
                     },
                     {}};
    watcher.post(numbered(1));
    watcher.post(numbered(2));
  }
  EXPECT_EQ(called, 2U);
}

TEST(observer, without_callbacks_it_still_takes_everything) {
  observer watcher{{}, {}};
  watcher.post(numbered(1));
  watcher.post(progress{});
}

}  // namespace
}  // namespace ftrt::host
