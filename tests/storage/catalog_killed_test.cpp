// What a process that was killed leaves to be put right in the catalog.

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gtest/gtest.h>

#include <tests/storage/catalog_fixture.hpp>
#include <utility>

namespace ftrt::storage {
namespace {

using catalog_killed = testing::catalog_fixture;

TEST_F(catalog_killed, no_incarnation_stays_open_when_its_run_ends_or_its_process_was_killed) {
  const auto ended = [this](std::uint32_t rank) {
    SQLite::Database database{file().string()};
    SQLite::Statement query{database, "SELECT ended_ms, cause FROM incarnations WHERE rank = ?"};
    query.bind(1, rank);
    EXPECT_TRUE(query.executeStep());
    return std::pair{query.getColumn(0).getInt64(), query.getColumn(1).getString()};
  };
  {
    auto c = open();
    ASSERT_TRUE(c.begin_run("run-1", "mnist", 1000));
    ASSERT_TRUE(c.begin_incarnation(rank_id{0}, incarnation_id{1}, 42, 1002));
    ASSERT_TRUE(c.begin_incarnation(rank_id{1}, incarnation_id{1}, 43, 1002));
    ASSERT_TRUE(c.end_incarnation(rank_id{1}, incarnation_id{1}, "killed by signal 9", 1003));
    event last;
    last.wall_time_ms = 1500;
    ASSERT_TRUE(c.add_events(std::span{&last, 1}));
  }  // and was killed
  auto c = open();
  ASSERT_TRUE(c.begin_run("run-1", "mnist", 9000));
  EXPECT_EQ(ended(0), (std::pair<std::int64_t, std::string>{
                          1500, "the process that had started it was killed"}));
  EXPECT_EQ(ended(1), (std::pair<std::int64_t, std::string>{1003, "killed by signal 9"}));
  ASSERT_TRUE(c.begin_incarnation(rank_id{2}, incarnation_id{1}, 44, 9001));
  ASSERT_TRUE(c.end_run("run-1", "completed", 9, "{}", 9500));
  EXPECT_EQ(ended(2), (std::pair<std::int64_t, std::string>{9500, "left when the run ended"}));
  EXPECT_EQ(ended(1).first, 1003);
}

TEST_F(catalog_killed, events_that_only_the_log_has_are_taken_in_once) {
  auto c = open();
  const auto numbered = [](std::int64_t time_ms, const std::string& text) {
    event what;
    what.wall_time_ms = time_ms;
    what.subject = "run";
    what.text = text;
    return what;
  };
  const std::vector<event> before{numbered(1, "a"), numbered(2, "twice"), numbered(3, "\xff")};
  ASSERT_TRUE(c.add_events(before));
  // As the log tells of them: repaired, in another order, and with what came after.
  auto late = numbered(9, "c");
  late.rank = 3;
  const std::vector<event> logged{numbered(2, "twice"), numbered(1, "a"), numbered(2, "twice"),
                                  numbered(3, "\uFFFD"), late};
  EXPECT_EQ(c.take_in(logged).value(), 2U);
  EXPECT_EQ(c.take_in(logged).value(), 0U);
  const auto all = c.events().value();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[3].text, "twice");
  EXPECT_EQ(all[4].text, "c");
  EXPECT_EQ(all[4].rank, 3);
}

}  // namespace
}  // namespace ftrt::storage
