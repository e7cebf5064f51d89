#include <gtest/gtest.h>

#include <actors/control/drop_account.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t every = 50;
constexpr const char* disks = "the disk is slower than checkpoint.every_iterations = 50 asks for";

std::optional<std::string> drop(drop_account& account, std::chrono::nanoseconds now,
                                bool waited = true) {
  account.looked(now);
  return account.drop(iteration_id{100}, waited, now);
}

TEST(drop_account, the_first_is_told_at_once_others_together_now_and_then_the_rest_at_the_end) {
  drop_account account{every};
  const std::string first = std::string{"1 was dropped, the last of iteration 100: "} + disks;
  EXPECT_EQ(drop(account, 5s), first);
  EXPECT_FALSE(account.rest()) << "it was told";
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(drop(account, 5s + i * 10ms));
  for (auto now = 6s; now < 5s + drop_account::interval; now += 1s) account.looked(now);
  account.looked(5s + drop_account::interval - 1ns);
  EXPECT_FALSE(account.drop(iteration_id{150}, true, 5s + drop_account::interval - 1ns));
  EXPECT_TRUE(drop(account, 5s + drop_account::interval)->starts_with("101 were dropped"));
  EXPECT_FALSE(drop(account, 6s + drop_account::interval));
  EXPECT_FALSE(drop(account, 6s + drop_account::interval));
  EXPECT_TRUE(account.rest()->starts_with("2 were dropped"));
  EXPECT_FALSE(account.rest());
}

// Continued after ten seconds: what comes then may come before the first look.
TEST(drop_account, a_process_that_stood_still_does_not_blame_the_disk) {
  drop_account account{every};
  account.looked(5s);
  const auto told = account.drop(iteration_id{100}, true, 15s);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->find(disks), std::string::npos) << *told;
  EXPECT_NE(told->find("which stood still for 10.0 s"), std::string::npos) << *told;
  account.looked(15s);
  EXPECT_FALSE(drop(account, 15s + 100ms));
  const auto rest = account.rest();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->find(disks), std::string::npos) << *rest;
}

// An actor that waits before it is restarted says nothing of the process.
TEST(drop_account, a_gap_between_two_who_look_is_no_standstill) {
  drop_account account{every};
  account.looked(5s);
  account.taken_up(15s);
  account.looked(15s + 100ms);
  EXPECT_EQ(account.drop(iteration_id{100}, true, 15s + 200ms),
            std::string{"1 was dropped, the last of iteration 100: "} + disks);
}

TEST(drop_account, the_disk_is_to_blame_again_some_time_after_that) {
  drop_account account{every};
  account.looked(5s);
  account.looked(15s);
  for (auto now = 15s + 100ms; now <= 17s; now += 100ms) account.looked(now);
  EXPECT_EQ(account.drop(iteration_id{100}, true, 17s),
            std::string{"1 was dropped, the last of iteration 100: "} + disks);
}

TEST(drop_account, what_was_overwritten_before_anybody_looked_is_counted_apart) {
  drop_account account{every};
  EXPECT_TRUE(drop(account, 5s));
  EXPECT_FALSE(drop(account, 5s + 1ms, false));
  EXPECT_FALSE(drop(account, 5s + 2ms));
  EXPECT_EQ(account.rest(), std::string{"2 were dropped, the last of iteration 100: "} + disks +
                                "; but for 1: they were overwritten before this process came to "
                                "them");
}

}  // namespace
}  // namespace ftrt::actors
