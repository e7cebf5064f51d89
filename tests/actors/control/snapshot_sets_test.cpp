#include <gtest/gtest.h>

#include <actors/control/snapshot_sets.hpp>
#include <storage/snapshot.hpp>
#include <tests/actors/control/snapshot_memory.hpp>

// Snapshots of ranks that died, found and put together again.
namespace ftrt::actors {
namespace {

using namespace testing;

class snapshot_sets : public ::testing::Test {
 protected:
  std::vector<snapshot_set> found(std::uint64_t since = 0, std::uint32_t branch = 1) {
    return complete_sets({a_.entry, b_.entry}, layout_, parts, branch_id{branch},
                         generation_id{since});
  }

  state_layout layout_ = two_tensors();
  snapshot_memory a_{0};
  snapshot_memory b_{1};
};

TEST_F(snapshot_sets, the_newest_complete_one_comes_first_and_a_lone_part_does_not_count) {
  for (const std::uint64_t k : {10U, 20U, 30U}) a_.write(k);
  for (const std::uint64_t k : {10U, 20U}) b_.write(k);
  const auto sets = found();
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].iteration, iteration_id{20});
  EXPECT_EQ(sets[1].iteration, iteration_id{10});
}

TEST_F(snapshot_sets, parts_of_two_generations_make_no_set) {
  a_.write(10, 1);
  b_.write(10, 2);
  EXPECT_TRUE(found().empty());
}

TEST_F(snapshot_sets, those_of_a_void_branch_or_of_a_generation_before_it_never_count) {
  for (auto* worker : {&a_, &b_}) {
    worker->write(10, 3, 1);
    worker->write(20, 4, 2);
  }
  ASSERT_EQ(found(4, 2).size(), 1U);
  EXPECT_EQ(found(4, 2)[0].iteration, iteration_id{20});
  EXPECT_TRUE(found(5, 2).empty());
}

TEST_F(snapshot_sets, a_part_that_another_rank_claims_is_no_part) {
  a_.write(10);
  b_.write(10);
  b_.entry->rank = rank_id{0};
  EXPECT_TRUE(found().empty());
}

TEST_F(snapshot_sets, the_parts_are_put_where_they_stood) {
  a_.write(10);
  b_.write(10);
  const auto memory = assemble(layout_, found().front());
  ASSERT_TRUE(memory) << memory.error().describe();
  ASSERT_EQ(memory->size(), 256U);
  for (std::size_t i = 0; i < 256; ++i) {
    ASSERT_EQ(memory->data()[i], static_cast<std::byte>(i < 128 ? 10 : 11)) << i;
  }
}

TEST_F(snapshot_sets, a_damaged_part_is_detected_and_named) {
  a_.write(10);
  b_.write(10);
  // The first slot's content begins behind the page of headers.
  b_.entry->snapshots.data()[4096 + 7] ^= std::byte{1};
  const auto memory = assemble(layout_, found().front());
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, error_code::corrupt);
  EXPECT_NE(memory.error().describe().find("rank 1"), std::string::npos);
}

TEST_F(snapshot_sets, one_that_was_overwritten_since_is_no_damage) {
  a_.write(10);
  b_.write(10);
  const auto sets = found();
  for (std::uint64_t k = 20; k < 60; k += 10) b_.write(k);
  EXPECT_EQ(assemble(layout_, sets.front()).error().code, error_code::aborted);
}

TEST_F(snapshot_sets, one_that_a_checkpoint_is_made_of_is_found_and_put_together_all_the_same) {
  a_.write(10);
  b_.write(10);
  const auto held = hold(layout_, found().front());
  ASSERT_TRUE(held) << held.error().describe();
  ASSERT_EQ(found().size(), 1U);
  EXPECT_TRUE(assemble(layout_, found().front()));
}

TEST_F(snapshot_sets, a_held_one_stays_whole_however_much_is_written_after_it) {
  a_.write(10);
  b_.write(10);
  const auto held = hold(layout_, found().front());
  ASSERT_TRUE(held);
  for (std::uint64_t k = 20; k < 90; k += 10) {
    a_.write(k);
    b_.write(k);
  }
  EXPECT_TRUE(verify(*held));
  EXPECT_EQ(held->parts[1].content[0], std::byte{11});
}

TEST_F(snapshot_sets, a_damaged_part_can_be_held_and_is_named_when_it_is_verified) {
  a_.write(10);
  b_.write(10);
  b_.entry->snapshots.data()[4096 + 7] ^= std::byte{1};
  const auto held = hold(layout_, found().front());
  ASSERT_TRUE(held);
  const auto verified = verify(*held);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, error_code::corrupt);
}

TEST_F(snapshot_sets, holding_fails_as_a_whole_and_keeps_nothing) {
  a_.write(10);
  b_.write(10);
  const auto sets = found();
  for (std::uint64_t k = 20; k < 60; k += 10) b_.write(k);
  EXPECT_EQ(hold(layout_, sets.front()).error().code, error_code::aborted);
  EXPECT_EQ(storage::list_ready(a_.entry->snapshots, 256).size(), 1U) << "the first part again";
}

// The state of the slot's word is 1 while the writer is at it.
TEST_F(snapshot_sets, a_slot_that_is_being_written_counts_as_overtaken) {
  a_.write(10);
  b_.write(10);
  const auto sets = found();
  auto& word = *reinterpret_cast<std::uint64_t*>(b_.entry->snapshots.data());
  word = (word & ~std::uint64_t{7}) | 1;
  EXPECT_EQ(hold(layout_, sets.front()).error().code, error_code::aborted);
}

TEST_F(snapshot_sets, no_more_than_two_are_held_and_the_third_is_told_to_wait) {
  std::vector<held_set> held;
  for (const std::uint64_t k : {10U, 20U, 30U}) {
    a_.write(k);
    b_.write(k);
    auto next = hold(layout_, found().front());
    if (k < 30) {
      held.push_back(std::move(next.value()));
    } else {
      EXPECT_EQ(next.error().code, error_code::busy);
    }
  }
  held.pop_back();
  EXPECT_TRUE(hold(layout_, found().front()));
}

}  // namespace
}  // namespace ftrt::actors
