#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <storage/catalog_database.hpp>
#include <tests/storage/catalog_fixture.hpp>
#include <tests/storage/checkpoint_fixture.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;
using testing::child_process;
using testing::signal_pipe;

class catalog_recovery : public testing::catalog_fixture {
 protected:
  void write(std::uint64_t iteration, std::uint32_t branch = 1) {
    ASSERT_TRUE(testing::write(folder(iteration, branch), iteration, 2, system_files(), branch));
  }
  [[nodiscard]] std::vector<std::uint64_t> usable() {
    std::vector<std::uint64_t> found;
    auto opened = try_open();
    const auto rows = opened.value().usable_checkpoints().value();
    for (const auto& row : rows) {
      found.push_back(row.manifest.iteration.value());
    }
    return found;
  }
  // Files of that beginning beside the catalog.
  [[nodiscard]] std::size_t files_like(const std::string& prefix) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator{directory_.path()}) {
      count += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
    }
    return count;
  }
};

using numbers = std::vector<std::uint64_t>;

TEST_F(catalog_recovery, C13_a_lost_catalog_is_rebuilt_from_the_manifests) {
  write(100);
  write(200);
  EXPECT_EQ(usable(), (numbers{200, 100}));
  EXPECT_TRUE(noted("rebuilt from 2 checkpoint manifests"));
  auto c = try_open().value();
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(c.last_generation().value(), generation_id{1});
  EXPECT_EQ(c.runs()->at(0).run_id, "run-1");
  EXPECT_EQ(c.runs()->at(0).status, "interrupted");
  EXPECT_EQ(c.runs()->at(0).iterations, 200u);
  // Nobody read them back yet.
  EXPECT_EQ(c.usable_checkpoints()->at(0).state, checkpoint_state::committed);
}

TEST_F(catalog_recovery, C13_an_emptied_catalog_beside_checkpoints_is_rebuilt_too) {
  write(100);
  std::ofstream{file()};
  EXPECT_EQ(usable(), (numbers{100}));
}

TEST_F(catalog_recovery, C45_a_damaged_catalog_is_moved_aside_and_rebuilt) {
  testing::seeded random;
  write(100);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    {
      auto c = try_open().value();
      ASSERT_TRUE(c.begin_run("run-1", "mnist", 1));
      const std::vector<event> many(200);
      ASSERT_TRUE(c.add_events(many));
    }
    const auto size = fs::file_size(file());
    switch (round % 3) {
      case 0:
        fs::resize_file(file(), size / 2);
        break;
      case 1:
        std::ofstream{file(), std::ios::trunc} << std::string(5000, 'x');
        break;
      default:
        // The page of the first tables' tree, without which nothing can be found.
        for (std::uint64_t i = 0; i < 3000; ++i) testing::poke(file(), 100 + i, std::byte{0xee});
    }
    EXPECT_EQ(usable(), (numbers{100}));
    EXPECT_TRUE(noted("was damaged"));
    EXPECT_TRUE(noted("rebuilt from 1"));
    EXPECT_GT(files_like("catalog.sqlite.damaged-"), 0u);
  }
}

TEST_F(catalog_recovery, C45_a_database_of_something_else_is_moved_aside_not_written_to) {
  SQLite::Database{file().string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE}.exec(
      "CREATE TABLE theirs (x)");
  EXPECT_EQ(usable(), (numbers{}));
  EXPECT_TRUE(noted("no catalog of ftrt"));
  EXPECT_EQ(files_like("catalog.sqlite.damaged-"), 1u);
}

TEST_F(catalog_recovery, C45_a_newer_schema_is_refused_and_left_alone) {
  ASSERT_TRUE(try_open().has_value());
  SQLite::Database{file().string(), SQLite::OPEN_READWRITE}.exec("PRAGMA user_version = 999");
  const auto opened = try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, error_code::unsupported);
  EXPECT_NE(opened.error().message.find("schema version 999"), std::string::npos);
  EXPECT_EQ(catalog::open_read_only(directory_.path()).error().code, error_code::unsupported);
  EXPECT_EQ(files_like("catalog.sqlite.damaged-"), 0u);
}

TEST_F(catalog_recovery, C45_a_migration_is_one_transaction_with_a_backup_beside) {
  {
    auto c = try_open().value();
    ASSERT_TRUE(c.begin_run("run-1", "mnist", 1));
  }
  const auto& known = catalog_migrations();
  std::vector<migration> steps{known.begin(), known.end()};
  const auto version = steps.back().version;
  steps.push_back({version + 1, "ALTER TABLE runs ADD COLUMN color TEXT"});
  steps.push_back({version + 2, "ALTER TABLE no_such_table ADD COLUMN x TEXT"});
  auto database = open_for_writing(file()).value();
  // The last step fails, so the one before it must not have happened either.
  EXPECT_FALSE(migrate(*database, file(), steps, notes_));
  EXPECT_EQ(schema_version(*database).value(), version);
  steps.pop_back();
  const auto migrated = migrate(*database, file(), steps, notes_);
  ASSERT_TRUE(migrated.has_value()) << migrated.error().describe();
  EXPECT_EQ(schema_version(*database).value(), version + 1);
  EXPECT_TRUE(noted("migrated from schema version 1 to 2"));
  EXPECT_EQ(database->number("SELECT count(*) FROM runs WHERE color IS NULL"), 1);
  const auto backup = file().string() + ".backup-v" + std::to_string(version);
  SQLite::Database saved{backup, SQLite::OPEN_READONLY};
  EXPECT_EQ(saved.execAndGet("PRAGMA user_version").getInt(), version);
  EXPECT_EQ(saved.execAndGet("SELECT name FROM runs").getString(), "mnist");
}

TEST_F(catalog_recovery, branches_are_inferred_so_that_no_abandoned_checkpoint_is_preferred) {
  write(100);
  write(200);
  write(300);
  write(250, 2);  // branch 2 left before 250, so 300 is of an abandoned future
  EXPECT_EQ(usable(), (numbers{250, 200, 100}));
  auto c = try_open().value();
  EXPECT_EQ(c.current_branch().value(), branch_id{2});
  EXPECT_EQ(c.last_generation().value(), generation_id{2});
  EXPECT_EQ(c.begin_branch(iteration_id{200}, generation_id{3}, 1).value(), branch_id{3});
}

TEST_F(catalog_recovery, a_wild_branch_number_costs_nothing) {
  write(100);
  write(200, 4'000'000'000u);
  EXPECT_EQ(usable(), (numbers{200, 100}));
}

TEST_F(catalog_recovery, manifests_of_other_runs_and_damaged_ones_are_left_out_and_told) {
  write(100);
  write(200);
  write(300);
  auto foreign = testing::header_of(300);
  foreign.run_id = "run-2";
  fs::remove_all(folder(300, 1));
  const auto arena = testing::filled_arena(foreign.layout, 1);
  ASSERT_TRUE(
      write_checkpoint(folder(300, 1), foreign, testing::parts_of(foreign.layout, arena, 1)));
  fs::resize_file(folder(200, 1) / manifest_file, 50);
  EXPECT_EQ(usable(), (numbers{100}));
  EXPECT_TRUE(noted("belongs to run 'run-2'"));
  EXPECT_TRUE(noted("1-200"));
}

TEST_F(catalog_recovery, a_moved_run_finds_its_checkpoints_at_their_new_place) {
  write(100);
  ASSERT_EQ(usable(), (numbers{100}));
  const temporary_folder elsewhere;
  fs::copy(directory_.path(), elsewhere.path() / "run", fs::copy_options::recursive);
  auto c = catalog::open_read_only(elsewhere.path() / "run").value();
  const auto row = c.usable_checkpoints()->at(0);
  EXPECT_EQ(row.directory, elsewhere.path() / "run" / "checkpoints" / "1-100");
  EXPECT_TRUE(verify_checkpoint(row.directory).has_value());
}

TEST_F(catalog_recovery, a_reader_works_beside_a_living_writer_and_after_it_was_killed) {
  const signal_pipe written;
  child_process writer{[&] {
    auto opened = try_open();
    if (!opened || !opened->begin_run("run-1", "mnist", 7)) return 1;
    written.say();
    ::pause();
    return 0;
  }};
  written.wait();
  EXPECT_EQ(catalog::open_read_only(directory_.path())->runs()->at(0).started_ms, 7);
  writer.kill();
  EXPECT_EQ(catalog::open_read_only(directory_.path())->runs()->at(0).started_ms, 7);
  EXPECT_EQ(try_open()->runs()->at(0).started_ms, 7);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(catalog_recovery, a_reader_cannot_write_and_a_missing_catalog_is_not_made_by_looking) {
  EXPECT_EQ(catalog::open_read_only(directory_.path()).error().code, error_code::not_found);
  EXPECT_FALSE(fs::exists(file()));
  ASSERT_TRUE(try_open().has_value());
  auto reader = catalog::open_read_only(directory_.path()).value();
  EXPECT_EQ(reader.begin_run("x", "x", 1).error().code, error_code::refused);
}

TEST_F(catalog_recovery, a_writer_that_is_killed_at_random_leaves_whole_transactions) {
  testing::seeded random;
  ASSERT_TRUE(try_open().has_value());
  for (int round = 0; round < 15; ++round) {
    const signal_pipe begun;
    child_process writer{[&] {
      auto opened = try_open();
      if (!opened) return 1;
      begun.say();
      const std::vector<event> three(3);
      while (opened->add_events(three)) {
      }
      return 2;
    }};
    begun.wait();
    ::usleep(static_cast<unsigned>(random.below(3000)));  // any moment will do
    writer.kill();
    auto c = try_open();
    ASSERT_TRUE(c.has_value()) << c.error().describe();
    EXPECT_TRUE(notes_.empty());
    EXPECT_EQ(c->events()->size() % 3, 0u);
  }
}

}  // namespace
}  // namespace ftrt::storage
