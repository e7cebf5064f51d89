#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <tests/storage/catalog_fixture.hpp>
#include <tests/storage/checkpoint_fixture.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using testing::child_process;

// A sound catalog whose rows and folders do not say the same.
class catalog_reconcile : public testing::catalog_fixture {
 protected:
  // A crash came before the row.
  void write(std::uint64_t iteration, std::uint32_t branch = 1) {
    const auto written =
        testing::write(folder(iteration, branch), iteration, 2, system_files(), branch);
    ASSERT_TRUE(written) << written.error().describe();
  }
  void add(catalog& c, std::uint64_t iteration, std::uint32_t branch = 1) {
    write(iteration, branch);
    ASSERT_TRUE(c.add_checkpoint(read_manifest(folder(iteration, branch)).value(),
                                 folder(iteration, branch), checkpoint_state::verified));
  }
  static std::vector<std::uint64_t> usable(catalog& c) {
    std::vector<std::uint64_t> found;
    const auto rows = c.usable_checkpoints().value();
    for (const auto& row : rows) {
      EXPECT_TRUE(verify_checkpoint(row.directory).has_value()) << row.directory;
      found.push_back(row.manifest.iteration.value());
    }
    return found;
  }
  static std::string state_of(catalog& c, std::uint64_t iteration, std::uint32_t branch = 1) {
    const auto rows = c.checkpoints().value();
    for (const auto& row : rows) {
      if (row.iteration == iteration && row.branch == branch) return row.state;
    }
    return "no row";
  }
  void expect_settled() {
    auto again = open();
    EXPECT_TRUE(notes_.empty()) << notes_.front();
  }
};

using numbers = std::vector<std::uint64_t>;

TEST_F(catalog_reconcile,
       C10_a_checkpoint_committed_before_its_row_was_written_is_used_and_pruned) {
  child_process killed{[&] {
    auto c = open();
    add(c, 100);
    write(200);
    ::raise(SIGKILL);
    return 0;
  }};
  EXPECT_EQ(killed.wait(), -SIGKILL);
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{200, 100}));
  EXPECT_EQ(state_of(c, 200), "committed");
  EXPECT_EQ(state_of(c, 100), "verified");
  EXPECT_TRUE(noted("checkpoint 200 of branch 1 was committed but not in the catalog: added"));
  EXPECT_EQ(notes_.size(), 1u);
  EXPECT_EQ(c.last_committed().value(), iteration_id{200});
  EXPECT_EQ(c.last_generation().value(), generation_id{1});
  EXPECT_EQ(c.checkpoints()->at(1).shards, 2u);
  add(c, 300);
  add(c, 400);
  EXPECT_TRUE(std::ranges::any_of(c.prunable(2).value(), [](const catalog_checkpoint& row) {
    return row.manifest.iteration == iteration_id{200};
  }));
  expect_settled();
}

TEST_F(catalog_reconcile, one_that_was_being_pruned_comes_back_and_retention_takes_it_again) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u, 300u}) add(c, k);
    ASSERT_TRUE(c.remove_row(iteration_id{100}, branch_id{1}));  // a crash came before the files
  }
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{300, 200, 100}));
  const auto prunable = c.prunable(2).value();
  ASSERT_EQ(prunable.size(), 1u);
  EXPECT_EQ(prunable[0].directory, folder(100));
  ASSERT_TRUE(c.remove_row(iteration_id{100}, branch_id{1}));
  ASSERT_TRUE(remove_checkpoint(prunable[0].directory));
  expect_settled();
}

TEST_F(catalog_reconcile, one_past_the_point_where_its_branch_was_left_is_added_as_superseded) {
  {
    auto c = open();
    add(c, 100);
    ASSERT_TRUE(c.begin_branch(iteration_id{150}, generation_id{2}, 1));
    write(150);
    write(160);
    write(200, 2);
  }
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{200, 150, 100}));
  EXPECT_EQ(state_of(c, 160), "superseded");
  EXPECT_TRUE(
      noted("checkpoint 160 of branch 1 was committed but not in the catalog: added as "
            "superseded, since its branch was left at iteration 150"));
  const auto prunable = c.prunable(10).value();
  ASSERT_EQ(prunable.size(), 1u);
  EXPECT_EQ(prunable[0].directory, folder(160));
  expect_settled();
}

TEST_F(catalog_reconcile, a_branch_that_only_its_checkpoints_know_is_history_and_not_begun_again) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u, 300u}) add(c, k);
    ASSERT_TRUE(c.add_ledger(branch_id{1}, generation_id{1}, iteration_id{1}, iteration_id{300}));
    write(250, 2);
  }
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{250, 200, 100}));
  EXPECT_EQ(state_of(c, 300), "superseded");
  EXPECT_TRUE(noted("branch 2 is known from its checkpoints only"));
  EXPECT_EQ(c.current_branch().value(), branch_id{2});
  EXPECT_EQ(c.last_committed().value(), iteration_id{250});
  EXPECT_TRUE(c.add_ledger(branch_id{2}, generation_id{2}, iteration_id{250}, iteration_id{260}));
  EXPECT_EQ(c.begin_branch(iteration_id{250}, generation_id{3}, 1).value(), branch_id{3});
  expect_settled();
}

TEST_F(catalog_reconcile, a_row_whose_files_are_gone_goes_and_comes_back_with_them) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u, 300u}) add(c, k);
  }
  fs::remove_all(folder(200));
  fs::rename(folder(300) / manifest_file, directory_.path() / "kept");
  {
    auto c = open();
    EXPECT_EQ(usable(c), (numbers{100}));
    EXPECT_TRUE(noted("checkpoint 200 of branch 1 is gone, checkpoints/1-200 has no manifest"));
    EXPECT_TRUE(noted("checkpoint 300 of branch 1 is gone"));
  }
  expect_settled();
  fs::rename(directory_.path() / "kept", folder(300) / manifest_file);
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{300, 100}));
}

TEST_F(catalog_reconcile, C13_where_all_files_are_gone_the_rows_stay_and_tell_of_what_there_was) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u}) add(c, k);
  }
  fs::rename(checkpoints(), directory_.path() / "moved");
  fs::create_directory(checkpoints());
  for (int start = 0; start < 2; ++start) {
    auto c = open();
    EXPECT_EQ(state_of(c, 100), "verified");
    EXPECT_EQ(c.last_committed().value(), iteration_id{200});
    const auto lost = c.all_lost().value();
    ASSERT_EQ(lost.size(), 2u);
    EXPECT_EQ(lost[0].iteration, iteration_id{200});
    EXPECT_EQ(lost[0].branch, branch_id{1});
    EXPECT_EQ(lost[0].directory, folder(200));
    EXPECT_NE(lost[0].why.find("manifest.bin"), std::string::npos) << lost[0].why;
    EXPECT_EQ(lost[1].directory, folder(100));
  }
  fs::remove(checkpoints());
  fs::rename(directory_.path() / "moved", checkpoints());
  auto c = open();
  EXPECT_TRUE(c.all_lost()->empty());
  EXPECT_EQ(usable(c), (numbers{200, 100}));
  expect_settled();
}

TEST_F(catalog_reconcile, the_last_rows_go_once_another_checkpoint_can_take_their_place) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u}) add(c, k);
  }
  fs::remove_all(folder(100));
  fs::remove_all(folder(200));
  { auto c = open(); }
  write(150);
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{150}));
  EXPECT_EQ(state_of(c, 200), "no row");
  expect_settled();
}

TEST_F(catalog_reconcile, C18_where_no_checkpoint_loads_each_is_named_with_what_is_wrong_with_it) {
  auto c = open();
  EXPECT_TRUE(c.all_lost()->empty()) << "there never was one";
  for (const std::uint64_t k : {100u, 200u, 300u, 400u}) add(c, k);
  EXPECT_TRUE(c.all_lost()->empty());
  // Of what a rollback went back behind nobody wants to know.
  ASSERT_TRUE(c.begin_branch(iteration_id{300}, generation_id{2}, 1));
  ASSERT_TRUE(
      c.set_state(iteration_id{100}, branch_id{1}, checkpoint_state::quarantined, "a bit flip"));
  fs::remove_all(folder(200));
  for (const auto& file : fs::directory_iterator{folder(300)}) {
    if (file.path().filename() != manifest_file) fs::resize_file(file.path(), 10);
  }
  const auto lost = c.all_lost().value();
  ASSERT_EQ(lost.size(), 3u);
  EXPECT_EQ(lost[0].iteration, iteration_id{300});
  EXPECT_NE(lost[0].why.find("has 10 bytes, expected "), std::string::npos) << lost[0].why;
  EXPECT_NE(lost[1].why.find("manifest.bin"), std::string::npos) << lost[1].why;
  EXPECT_EQ(lost[2].why, "quarantined: a bit flip");
  add(c, 350, 2);
  EXPECT_TRUE(c.all_lost()->empty()) << "one that is good is enough";
}

TEST_F(catalog_reconcile, a_checkpoint_whose_folder_was_renamed_is_found_at_its_new_place) {
  {
    auto c = open();
    add(c, 100);
  }
  fs::rename(folder(100), checkpoints() / "elsewhere");
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{100}));
  EXPECT_EQ(c.usable_checkpoints()->at(0).directory, checkpoints() / "elsewhere");
  expect_settled();
}

TEST_F(catalog_reconcile, C18_a_quarantined_one_stays_so_with_its_files_and_without) {
  {
    auto c = open();
    for (const std::uint64_t k : {100u, 200u}) {
      add(c, k);
      ASSERT_TRUE(
          c.set_state(iteration_id{k}, branch_id{1}, checkpoint_state::quarantined, "bit flip"));
    }
  }
  fs::remove_all(folder(200));
  expect_settled();
  auto c = open();
  EXPECT_EQ(usable(c), (numbers{}));
  EXPECT_EQ(state_of(c, 100), "quarantined");
  EXPECT_EQ(state_of(c, 200), "quarantined");
}

TEST_F(catalog_reconcile, copies_other_runs_and_damaged_manifests_get_no_row_and_are_told_once) {
  {
    auto c = open();
    add(c, 100);
  }
  fs::copy(folder(100), checkpoints() / "copy", fs::copy_options::recursive);
  write(200);
  fs::resize_file(folder(200) / manifest_file, 50);
  auto foreign = testing::header_of(300);
  foreign.run_id = "run-2";
  const auto arena = testing::filled_arena(foreign.layout, 1);
  ASSERT_TRUE(write_checkpoint(folder(300), foreign, testing::parts_of(foreign.layout, arena, 1)));
  { auto first = open(); }
  // As a start does: more than once, with the same notes.
  auto c = catalog::open(directory_.path(), "run-1", notes_).value();
  EXPECT_EQ(usable(c), (numbers{100}));
  EXPECT_EQ(c.usable_checkpoints()->at(0).directory, folder(100));
  EXPECT_EQ(c.usable_checkpoints()->at(0).state, checkpoint_state::verified);
  EXPECT_TRUE(noted("copy is a copy of checkpoint 100 of branch 1, which is in checkpoints/1-100"));
  EXPECT_TRUE(noted("belongs to run 'run-2'"));
  EXPECT_TRUE(noted("1-200"));
  EXPECT_EQ(notes_.size(), 3u);
}

TEST_F(catalog_reconcile, C10_killed_anywhere_between_commit_row_and_pruning_it_never_lies) {
  testing::seeded random;
  std::uint64_t iteration = 0;
  for (int round = 0; round < 20; ++round) {
    const auto steps = random.below(8);
    child_process worker{[&] {
      auto c = open();
      std::uint64_t left = steps;
      const auto step = [&] {
        if (left-- == 0) ::raise(SIGKILL);
      };
      for (auto k = iteration + 1;; ++k) {
        const auto manifest = testing::write(folder(k), k);
        step();
        if (!c.add_checkpoint(*manifest, folder(k), checkpoint_state::committed)) return 1;
        step();
        const auto prunable = c.prunable(2).value();
        for (const auto& old : prunable) {
          if (!c.remove_row(old.manifest.iteration, branch_id{1})) return 2;
          step();
          if (!remove_checkpoint(old.directory)) return 3;
          step();
        }
      }
    }};
    ASSERT_EQ(worker.wait(), -SIGKILL);
    auto c = open();
    const auto rows = usable(c);  // verifies each
    ASSERT_FALSE(rows.empty());
    EXPECT_GE(rows.front(), iteration + 1);
    EXPECT_EQ(rows.size(), find_checkpoints(checkpoints()).size());
    iteration = rows.front();
  }
}

}  // namespace
}  // namespace ftrt::storage
