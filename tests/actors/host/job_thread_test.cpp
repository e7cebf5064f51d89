#include <gtest/gtest.h>

#include <actors/host/job_thread.hpp>
#include <future>
#include <latch>
#include <stdexcept>
#include <vector>

namespace ftrt::host {
namespace {

using namespace std::chrono_literals;

// What is posted next has a thread that is done with all before.
void wait_for_all(job_thread& thread) {
  std::promise<void> done;
  thread.post("the last one", [&done] { done.set_value(); });
  ASSERT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
}

TEST(job_thread, does_what_is_posted_in_order_and_nothing_after_it_is_finished) {
  std::vector<int> done;
  job_thread thread;
  for (int i = 0; i < 100; ++i) thread.post("one", [&done, i] { done.push_back(i); });
  wait_for_all(thread);
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(thread.finish(10s));
  thread.post("late", [&done] { done.clear(); });
  EXPECT_FALSE(thread.finish(10s));
  EXPECT_EQ(done.size(), 100U);
}

TEST(job_thread, a_job_that_throws_does_not_end_it) {
  bool after = false;
  job_thread thread;
  thread.post("no good", [] { throw std::runtime_error{"no memory"}; });
  thread.post("good", [&after] { after = true; });
  wait_for_all(thread);
  EXPECT_TRUE(after);
}

TEST(job_thread, C41_ends_by_its_deadline_and_names_the_job_that_did_not) {
  std::latch begun{1};
  std::latch go_on{1};
  bool ever_begun = false;
  job_thread thread;
  thread.post("search for a needle", [&] {
    begun.count_down();
    go_on.wait();
  });
  thread.post("search for a haystack", [&] { ever_begun = true; });
  begun.wait();
  EXPECT_FALSE(thread.is_finishing());
  EXPECT_EQ(thread.finish(1ms), "search for a needle");
  EXPECT_TRUE(thread.is_finishing()) << "which tells the job";
  go_on.count_down();
  EXPECT_FALSE(thread.finish(10s));
  EXPECT_FALSE(ever_begun) << "nobody waits for it any more";
}

}  // namespace
}  // namespace ftrt::host
