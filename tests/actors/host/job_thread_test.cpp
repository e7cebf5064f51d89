#include <gtest/gtest.h>

#include <actors/host/job_thread.hpp>
#include <stdexcept>
#include <vector>

namespace ftrt::host {
namespace {

TEST(job_thread, does_all_that_was_posted_in_order_before_it_is_finished_and_nothing_after) {
  std::vector<int> done;
  job_thread thread;
  for (int i = 0; i < 100; ++i) thread.post([&done, i] { done.push_back(i); });
  thread.finish();
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  thread.post([&done] { done.clear(); });
  thread.finish();
  EXPECT_EQ(done.size(), 100U);
}

TEST(job_thread, a_job_that_throws_does_not_end_it) {
  bool after = false;
  job_thread thread;
  thread.post([] { throw std::runtime_error{"no memory"}; });
  thread.post([&after] { after = true; });
  thread.finish();
  EXPECT_TRUE(after);
}

}  // namespace
}  // namespace ftrt::host
