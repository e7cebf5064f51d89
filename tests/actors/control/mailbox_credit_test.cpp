#include <gtest/gtest.h>

#include <actors/control/mailbox_credit.hpp>
#include <optional>
#include <vector>

namespace ftrt::actors {
namespace {

TEST(mailbox_credit, counts_each_message_until_its_last_copy_is_gone) {
  mailbox_credit credit;
  EXPECT_EQ(credit.outstanding(), 0U);
  std::vector<mailbox_credit::ticket> mailbox;
  for (int i = 0; i < 3; ++i) mailbox.push_back(credit.take());
  auto copy = mailbox.front();
  mailbox.clear();
  EXPECT_EQ(credit.outstanding(), 1U);
  copy.reset();
  EXPECT_EQ(credit.outstanding(), 0U);
}

TEST(mailbox_credit, may_go_before_its_tickets) {
  std::optional<mailbox_credit> credit{std::in_place};
  auto late = credit->take();
  credit.reset();
  EXPECT_EQ(late.use_count(), 1);
  late.reset();  // what it counts in must still be there
}

}  // namespace
}  // namespace ftrt::actors
