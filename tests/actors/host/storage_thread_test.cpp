#include <gtest/gtest.h>

#include <actors/host/storage_thread.hpp>
#include <atomic>
#include <future>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::host {
namespace {

// A storage thread on a run of its own, whose disk hangs until it is told to go on.
class hanging_storage : public ::testing::Test {
 protected:
  hanging_storage()
      : storage_(std::move(*storage::catalog::open(folder_.path(), "run-1", notes_)),
                 std::move(*storage::event_log::open(folder_.path() / "events.jsonl")), observer_) {
    storage_.post([this](storage::catalog&) { hangs_.get_future().wait(); });
  }
  // An assertion that fails must not leave the thread there.
  ~hanging_storage() override { go_on(); }
  void go_on() {
    if (!went_on_.exchange(true)) hangs_.set_value();
  }

  test::temporary_folder folder_;
  std::vector<std::string> notes_;
  std::promise<void> hangs_;
  std::atomic<bool> went_on_{false};
  std::atomic<std::uint64_t> done_{0};
  observer observer_{nullptr, nullptr};
  storage_thread storage_;
};

TEST_F(hanging_storage, takes_what_may_be_shed_up_to_its_bound_and_everything_else_beyond_it) {
  std::uint64_t taken = 0;
  const auto count = [this](storage::catalog&) { ++done_; };
  while (taken < 100'000 && storage_.post_if_room(count)) ++taken;
  EXPECT_GE(taken, storage_thread::max_waiting - 1);
  EXPECT_LE(taken, storage_thread::max_waiting);
  EXPECT_FALSE(storage_.post_if_room(count));
  storage_.post(count);
  EXPECT_FALSE(storage_.drain(std::chrono::milliseconds{1}));
  go_on();
  EXPECT_TRUE(storage_.drain(std::chrono::seconds{30}));
  EXPECT_EQ(done_, taken + 1);
  EXPECT_TRUE(storage_.post_if_room(count));
}

}  // namespace
}  // namespace ftrt::host
