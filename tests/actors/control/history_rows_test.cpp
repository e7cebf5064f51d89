#include <gtest/gtest.h>

#include <actors/control/history_rows.hpp>
#include <string>
#include <tests/storage/catalog_fixture.hpp>
#include <vector>

namespace ftrt::actors {
namespace {

constexpr std::int64_t now_ms = 1;

// A disk that takes no rows of one table for a while: each is refused as a full one would.
class history : public storage::testing::catalog_fixture {
 protected:
  history() { EXPECT_TRUE(catalog_.begin_run("run-1", "test", now_ms)); }

  history_rows::row generation(std::uint64_t number, std::uint32_t branch = 1) {
    return [this, number, branch](storage::catalog& catalog) -> result<void> {
      if (full_) return fail(error_code::no_space, "the disk is full");
      tried_.push_back(number);
      return catalog.begin_generation(generation_id{number}, branch_id{branch}, iteration_id{0},
                                      "a test's", now_ms);
    };
  }
  history_rows::row branch_at(std::uint64_t from, std::uint64_t number) {
    return [this, from, number](storage::catalog& catalog) -> result<void> {
      if (full_) return fail(error_code::no_space, "the disk is full");
      auto begun = catalog.begin_branch(iteration_id{from}, generation_id{number}, now_ms);
      if (!begun) return tl::unexpected(begun.error());
      return catalog.begin_generation(generation_id{number}, *begun, iteration_id{from}, "a test's",
                                      now_ms);
    };
  }

  storage::catalog catalog_ = open();
  history_rows rows_;
  bool full_ = false;
  std::vector<std::uint64_t> tried_;
};

TEST_F(history, is_written_at_once_where_the_disk_takes_it) {
  EXPECT_TRUE(rows_.write(catalog_, generation(1)));
  EXPECT_EQ(rows_.owed(), 0U);
}

TEST_F(history, that_a_full_disk_refused_is_written_in_order_as_soon_as_there_is_room) {
  ASSERT_TRUE(rows_.write(catalog_, generation(1)));
  full_ = true;
  EXPECT_EQ(rows_.write(catalog_, branch_at(10, 2)).error().code, error_code::no_space);
  EXPECT_EQ(rows_.write(catalog_, generation(3, 2)).error().code, error_code::no_space);
  EXPECT_EQ(rows_.settle(catalog_).error().code, error_code::no_space);
  EXPECT_EQ(rows_.owed(), 2U);
  full_ = false;
  ASSERT_TRUE(rows_.settle(catalog_)) << "before a checkpoint of branch 2, say";
  EXPECT_EQ(rows_.owed(), 0U);
  EXPECT_EQ(catalog_.current_branch().value(), branch_id{2});
  EXPECT_EQ(tried_, (std::vector<std::uint64_t>{1, 3}));
  EXPECT_TRUE(
      catalog_.add_ledger(branch_id{2}, generation_id{3}, iteration_id{11}, iteration_id{20}))
      << "what refers to them is taken";
}

TEST_F(history, that_is_owed_comes_before_what_is_new) {
  full_ = true;
  EXPECT_FALSE(rows_.write(catalog_, generation(1)));
  full_ = false;
  EXPECT_TRUE(rows_.write(catalog_, generation(2)));
  EXPECT_EQ(tried_, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(history, that_the_catalog_itself_refuses_is_not_tried_for_ever) {
  ASSERT_TRUE(rows_.write(catalog_, generation(5)));
  EXPECT_EQ(rows_.write(catalog_, generation(4)).error().code, error_code::stale_generation);
  EXPECT_EQ(rows_.owed(), 0U);
}

}  // namespace
}  // namespace ftrt::actors
