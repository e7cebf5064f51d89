#include <gtest/gtest.h>

#include <actors/control/standing_orders.hpp>
#include <vector>

namespace ftrt::actors {
namespace {

protocol::injure kill_in_join() {
  protocol::injure order;
  order.kind = protocol::injury_kind::kill;
  order.phase = protocol::injury_phase::join;
  return order;
}

TEST(standing_orders, stand_for_a_rank_until_one_of_its_workers_obeys) {
  standing_orders orders;
  const auto first = orders.add(0, rank_id{1}, kill_in_join());
  const auto second = orders.add(3, rank_id{1}, kill_in_join());
  const auto other = orders.add(3, rank_id{0}, kill_in_join());
  EXPECT_NE(first.number, 0U);
  EXPECT_NE(first.number, second.number);
  EXPECT_EQ(orders.of(rank_id{1}).size(), 2U);

  // A page may say anything: what is not of this rank, or is unknown, settles nothing.
  const std::vector<std::uint64_t> said{second.number, other.number, 77};
  const auto settled = orders.settle(rank_id{1}, said);
  ASSERT_EQ(settled.size(), 1U);
  EXPECT_EQ(settled[0].entry, 3U);
  EXPECT_EQ(settled[0].what.number, second.number);
  EXPECT_TRUE(orders.settle(rank_id{1}, said).empty()) << "once";
  ASSERT_EQ(orders.of(rank_id{1}).size(), 1U);
  EXPECT_EQ(orders.of(rank_id{1})[0].number, first.number);
  EXPECT_EQ(orders.all().size(), 2U);
  EXPECT_FALSE(orders.empty());
}

}  // namespace
}  // namespace ftrt::actors
