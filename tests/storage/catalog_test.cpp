#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gtest/gtest.h>

#include <fstream>
#include <tests/storage/catalog_fixture.hpp>
#include <tests/storage/checkpoint_fixture.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

class catalog_test : public testing::catalog_fixture {
 protected:
  // Writes a checkpoint to disk and makes it visible.
  result<void> add(catalog& c, std::uint64_t iteration, std::uint32_t branch = 1,
                   checkpoint_state state = checkpoint_state::verified) {
    auto manifest = testing::write(folder(iteration, branch), iteration, 2, system_files(), branch);
    if (!manifest) return tl::unexpected(manifest.error());
    return c.add_checkpoint(*manifest, folder(iteration, branch), state);
  }
  static std::vector<std::uint64_t> iterations(
      const result<std::vector<catalog_checkpoint>>& rows) {
    std::vector<std::uint64_t> found;
    for (const auto& row : rows.value()) found.push_back(row.manifest.iteration.value());
    return found;
  }
  [[nodiscard]] std::string all_notes() const {
    std::string text;
    for (const auto& note : notes_) text += note + "\n";
    return text;
  }
};

using numbers = std::vector<std::uint64_t>;

TEST_F(catalog_test, a_new_one_is_empty_quiet_and_on_branch_1) {
  auto c = open();
  EXPECT_EQ(all_notes(), "");
  EXPECT_EQ(c.current_branch().value(), branch_id{1});
  EXPECT_EQ(c.last_generation().value(), generation_id{0});
  EXPECT_TRUE(c.usable_checkpoints()->empty());
  EXPECT_TRUE(c.runs()->empty());
}

TEST_F(catalog_test, a_run_its_generations_and_its_incarnations_are_remembered) {
  {
    auto c = open();
    ASSERT_TRUE(c.begin_run("run-1", "mnist", 1000));
    ASSERT_TRUE(c.begin_generation(generation_id{1}, branch_id{1}, iteration_id{0}, "start", 1001));
    ASSERT_TRUE(c.begin_incarnation(rank_id{0}, incarnation_id{1}, 42, 1002));
    ASSERT_TRUE(c.end_incarnation(rank_id{0}, incarnation_id{1}, "killed by signal 9", 1003));
    ASSERT_TRUE(
        c.begin_generation(generation_id{2}, branch_id{1}, iteration_id{5}, "rank 0", 1004));
    ASSERT_TRUE(c.add_ledger(branch_id{1}, generation_id{1}, iteration_id{1}, iteration_id{5}));
  }
  auto c = open();
  EXPECT_EQ(c.last_generation().value(), generation_id{2});
  auto rows = c.runs().value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].status, "running");
  EXPECT_EQ(rows[0].generations, 2u);
  EXPECT_EQ(rows[0].iterations, 5u);
  ASSERT_TRUE(c.end_run("run-1", "completed", 9, "{}", 2000));
  rows = c.runs().value();
  EXPECT_EQ(rows[0].status, "completed");
  EXPECT_EQ(rows[0].ended_ms, 2000);
  EXPECT_EQ(rows[0].iterations, 9u);
  // A resumed run is the same run.
  ASSERT_TRUE(c.begin_run("run-1", "mnist", 3000));
  rows = c.runs().value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].status, "running");
  EXPECT_EQ(rows[0].started_ms, 1000);
  EXPECT_EQ(rows[0].ended_ms, 0);
}

TEST_F(catalog_test, what_nobody_began_cannot_be_ended_and_nonsense_is_refused) {
  auto c = open();
  EXPECT_EQ(c.end_run("x", "completed", 0, "", 0).error().code, error_code::not_found);
  EXPECT_EQ(c.end_incarnation(rank_id{0}, incarnation_id{1}, "", 0).error().code,
            error_code::not_found);
  EXPECT_EQ(c.set_state(iteration_id{1}, branch_id{1}, checkpoint_state::verified, "").error().code,
            error_code::not_found);
  ASSERT_TRUE(c.begin_run("run-1", "mnist", 1));
  EXPECT_EQ(c.end_run("run-1", "no such status", 0, "", 0).error().code,
            error_code::invalid_argument);
  EXPECT_EQ(c.begin_generation(generation_id{1}, branch_id{9}, iteration_id{0}, "", 0).error().code,
            error_code::invalid_argument);
  EXPECT_EQ(c.runs()->at(0).status, "running");
}

TEST_F(catalog_test, an_older_generation_is_refused_and_the_same_one_may_be_told_twice) {
  auto c = open();
  const auto begin = [&](std::uint64_t g) {
    return c.begin_generation(generation_id{g}, branch_id{1}, iteration_id{0}, "r", 0);
  };
  ASSERT_TRUE(begin(3));
  EXPECT_TRUE(begin(3));
  EXPECT_EQ(begin(2).error().code, error_code::stale_generation);
  EXPECT_EQ(c.last_generation().value(), generation_id{3});
}

TEST_F(catalog_test, checkpoints_come_newest_first_with_their_manifest_and_place) {
  auto c = open();
  for (const std::uint64_t k : {100u, 300u, 200u}) ASSERT_TRUE(add(c, k));
  const auto usable = c.usable_checkpoints().value();
  EXPECT_EQ(iterations(usable), (numbers{300, 200, 100}));
  EXPECT_EQ(usable[0].state, checkpoint_state::verified);
  EXPECT_EQ(usable[0].directory, folder(300));
  EXPECT_EQ(usable[0].manifest.layout, testing::small_layout());
  EXPECT_TRUE(verify_checkpoint(usable[0].directory).has_value());
  const auto rows = c.checkpoints().value();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].iteration, 100u);
  EXPECT_EQ(rows[0].shards, 2u);
  EXPECT_GT(rows[0].bytes, 1000u);
  EXPECT_EQ(rows[0].state, "verified");
}

TEST_F(catalog_test, C18_a_quarantined_checkpoint_is_never_offered_again) {
  auto c = open();
  ASSERT_TRUE(add(c, 100));
  ASSERT_TRUE(add(c, 200));
  ASSERT_TRUE(
      c.set_state(iteration_id{200}, branch_id{1}, checkpoint_state::quarantined, "bit flip"));
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{100}));
  EXPECT_EQ(c.checkpoints()->at(1).state, "quarantined");
}

TEST_F(catalog_test, adding_a_checkpoint_again_replaces_its_row) {
  auto c = open();
  ASSERT_TRUE(add(c, 100, 1, checkpoint_state::committed));
  const auto manifest = read_manifest(folder(100)).value();
  ASSERT_TRUE(c.add_checkpoint(manifest, folder(100), checkpoint_state::verified));
  ASSERT_EQ(c.checkpoints()->size(), 1u);
  EXPECT_EQ(c.checkpoints()->at(0).shards, 2u);
  EXPECT_EQ(c.usable_checkpoints()->at(0).state, checkpoint_state::verified);
}

TEST_F(catalog_test, a_rollback_hides_the_checkpoints_past_it_and_refuses_late_ones) {
  auto c = open();
  for (const std::uint64_t k : {100u, 200u, 300u}) ASSERT_TRUE(add(c, k));
  EXPECT_EQ(c.begin_branch(iteration_id{200}, generation_id{4}, 1).value(), branch_id{2});
  EXPECT_EQ(c.current_branch().value(), branch_id{2});
  EXPECT_EQ(c.last_generation().value(), generation_id{4});
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{200, 100}));
  EXPECT_EQ(c.checkpoints()->at(2).state, "superseded");
  // A writer of the old branch that has not heard of the rollback.
  EXPECT_EQ(add(c, 250).error().code, error_code::stale_generation);
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{200, 100}));
  // One that belongs to what both branches share is as good as before.
  EXPECT_TRUE(add(c, 150));
  EXPECT_TRUE(add(c, 300, 2));
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{300, 200, 150, 100}));
}

TEST_F(catalog_test, a_rollback_past_the_beginning_of_its_branch_hides_both_branches_tails) {
  auto c = open();
  for (const std::uint64_t k : {100u, 200u}) ASSERT_TRUE(add(c, k));
  ASSERT_TRUE(c.begin_branch(iteration_id{200}, generation_id{2}, 1));
  ASSERT_TRUE(add(c, 300, 2));
  ASSERT_EQ(c.begin_branch(iteration_id{100}, generation_id{3}, 2).value(), branch_id{3});
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{100}));
  EXPECT_EQ(add(c, 150).error().code, error_code::stale_generation);
  EXPECT_EQ(add(c, 210, 2).error().code, error_code::stale_generation);
  EXPECT_TRUE(add(c, 150, 3));
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{150, 100}));
}

TEST_F(catalog_test, C11_retention_keeps_the_newest_ones_and_always_the_newest_verified_one) {
  auto c = open();
  using enum checkpoint_state;
  ASSERT_TRUE(add(c, 100, 1, verified));
  ASSERT_TRUE(add(c, 200, 1, verified));
  ASSERT_TRUE(add(c, 300, 1, committed));
  ASSERT_TRUE(add(c, 400, 1, committed));
  EXPECT_EQ(iterations(c.prunable(1)), (numbers{300, 100}));
  EXPECT_EQ(iterations(c.prunable(2)), (numbers{100}));
  EXPECT_EQ(iterations(c.prunable(10)), (numbers{}));
  EXPECT_EQ(c.prunable(0).error().code, error_code::invalid_argument);
}

TEST_F(catalog_test, C11_abandoned_branches_do_not_count_as_kept_and_may_go) {
  auto c = open();
  for (const std::uint64_t k : {100u, 200u, 300u, 400u}) ASSERT_TRUE(add(c, k));
  ASSERT_TRUE(c.begin_branch(iteration_id{200}, generation_id{2}, 1));
  EXPECT_EQ(iterations(c.prunable(1)), (numbers{100, 400, 300}));
  EXPECT_EQ(iterations(c.prunable(2)), (numbers{400, 300}));
  const auto prunable = c.prunable(1).value();
  for (const auto& row : prunable) {
    ASSERT_TRUE(c.remove_row(row.manifest.iteration, row.manifest.branch));
    ASSERT_TRUE(remove_checkpoint(row.directory));
  }
  EXPECT_EQ(iterations(c.usable_checkpoints()), (numbers{200}));
  EXPECT_EQ(find_checkpoints(checkpoints()), std::vector{folder(200)});
}

TEST_F(catalog_test, C11_quarantined_ones_go_when_their_neighbours_have_gone) {
  auto c = open();
  for (const std::uint64_t k : {100u, 200u, 300u}) ASSERT_TRUE(add(c, k));
  ASSERT_TRUE(c.set_state(iteration_id{200}, branch_id{1}, checkpoint_state::quarantined, "x"));
  EXPECT_EQ(iterations(c.prunable(2)), (numbers{}));
  EXPECT_EQ(iterations(c.prunable(1)), (numbers{100, 200}));
}

struct ledger_range {
  std::uint64_t first, last;
  bool voided;
  bool operator==(const ledger_range&) const = default;
};

std::vector<ledger_range> ledger_of(const fs::path& file) {
  SQLite::Database db{file.string(), SQLite::OPEN_READONLY};
  SQLite::Statement rows{db,
                         "SELECT first_iteration, last_iteration, voided FROM ledger"
                         " ORDER BY first_iteration, voided"};
  std::vector<ledger_range> found;
  while (rows.executeStep()) {
    found.push_back({static_cast<std::uint64_t>(rows.getColumn(0).getInt64()),
                     static_cast<std::uint64_t>(rows.getColumn(1).getInt64()),
                     rows.getColumn(2).getInt() != 0});
  }
  return found;
}

TEST_F(catalog_test, the_ledger_joins_what_belongs_together_and_counts_no_iteration_twice) {
  auto c = open();
  const auto add_range = [&](std::uint64_t generation, std::uint64_t first, std::uint64_t last) {
    return c.add_ledger(branch_id{1}, generation_id{generation}, iteration_id{first},
                        iteration_id{last});
  };
  ASSERT_TRUE(add_range(1, 1, 10));
  ASSERT_TRUE(add_range(1, 11, 20));
  ASSERT_TRUE(add_range(1, 15, 25));  // told again by an actor that took over
  ASSERT_TRUE(add_range(1, 3, 9));
  ASSERT_TRUE(add_range(2, 26, 30));
  EXPECT_EQ(ledger_of(file()), (std::vector<ledger_range>{{1, 25, false}, {26, 30, false}}));
  EXPECT_EQ(add_range(2, 40, 35).error().code, error_code::invalid_argument);
}

TEST_F(catalog_test, a_rollback_voids_the_ledger_past_it_to_the_iteration) {
  auto c = open();
  ASSERT_TRUE(c.add_ledger(branch_id{1}, generation_id{1}, iteration_id{1}, iteration_id{100}));
  ASSERT_TRUE(c.add_ledger(branch_id{1}, generation_id{2}, iteration_id{101}, iteration_id{120}));
  ASSERT_TRUE(c.begin_branch(iteration_id{60}, generation_id{3}, 1));
  EXPECT_EQ(ledger_of(file()),
            (std::vector<ledger_range>{{1, 60, false}, {61, 100, true}, {101, 120, true}}));
  // The old branch's last words come too late; the new one goes on at 61.
  EXPECT_EQ(c.add_ledger(branch_id{1}, generation_id{2}, iteration_id{121}, iteration_id{125})
                .error()
                .code,
            error_code::stale_generation);
  ASSERT_TRUE(c.add_ledger(branch_id{2}, generation_id{3}, iteration_id{61}, iteration_id{70}));
  EXPECT_EQ(ledger_of(file()),
            (std::vector<ledger_range>{
                {1, 60, false}, {61, 70, false}, {61, 100, true}, {101, 120, true}}));
  EXPECT_EQ(c.runs()->size(), 0u);
}

TEST_F(catalog_test, events_come_back_as_they_went_in_and_in_order) {
  auto c = open();
  std::vector<event> events(3);
  events[0].what = event::kind::worker_lost;
  events[0].rank = 1;
  events[0].subject = "trainer:1";
  events[0].text = "it's \"gone\"; drop table events";
  events[1].what = event::kind::rollback;
  events[1].generation = 7;
  events[1].iteration = ~std::uint64_t{0} >> 1;
  events[2].wall_time_ms = 5;
  ASSERT_TRUE(c.add_events(events));
  ASSERT_TRUE(c.add_events({}));
  const auto read = c.events().value();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].what, event::kind::worker_lost);
  EXPECT_EQ(read[0].rank, 1);
  EXPECT_EQ(read[0].text, events[0].text);
  EXPECT_EQ(read[1].rank, -1);
  EXPECT_EQ(read[1].iteration, events[1].iteration);
  EXPECT_EQ(read[2].wall_time_ms, 5);
  EXPECT_TRUE(c.skipped_iterations().value().empty());
}

TEST_F(catalog_test, iterations_that_were_left_out_are_listed_once_and_ascending) {
  auto c = open();
  std::vector<event> events(4);
  events[0].what = events[1].what = events[2].what = event::kind::batch_skipped;
  events[3].what = event::kind::batch_poisoned;
  events[0].iteration = 90;
  events[1].iteration = events[2].iteration = 8;
  events[3].iteration = 7;
  ASSERT_TRUE(c.add_events(events));
  EXPECT_EQ(c.skipped_iterations().value(), (std::vector{iteration_id{8}, iteration_id{90}}));
}

}  // namespace
}  // namespace ftrt::storage
