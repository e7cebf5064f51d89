#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <storage/catalog.hpp>
#include <tests/storage/checkpoint_fixture.hpp>
#include <tests/support/environment.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;

// A catalog with something in every table, and the document that describes it.
class catalog_document : public ::testing::Test {
 protected:
  void SetUp() override {
    document_ = test::read_file(test::source_tree() / "docs" / "catalog.md");
    ASSERT_FALSE(document_.empty());
    fill();
  }

  void fill() {
    std::vector<std::string> notes;
    auto c = catalog::open(directory_.path(), "run-1", notes).value();
    ASSERT_TRUE(c.begin_run("run-1", "mnist", 1000));
    ASSERT_TRUE(c.begin_generation(generation_id{1}, branch_id{1}, iteration_id{0}, "start", 1));
    ASSERT_TRUE(c.begin_incarnation(rank_id{0}, incarnation_id{1}, 42, 1));
    ASSERT_TRUE(c.end_incarnation(rank_id{0}, incarnation_id{1}, "killed", 2));
    ASSERT_TRUE(c.add_ledger(branch_id{1}, generation_id{1}, iteration_id{1}, iteration_id{200}));
    const auto folder = directory_.path() / "checkpoints" / "1";
    fs::create_directory(folder.parent_path());
    const auto manifest = testing::write(folder, 100).value();
    ASSERT_TRUE(c.add_checkpoint(manifest, folder, checkpoint_state::verified));
    ASSERT_TRUE(c.begin_branch(iteration_id{150}, generation_id{2}, 3));
    event what;
    what.what = event::kind::worker_lost;
    event wrong;
    wrong.what = event::kind::state_diverged;
    ASSERT_TRUE(c.add_events(std::vector{what, wrong}));
    ASSERT_TRUE(c.end_run("run-1", "completed", 200, "{}", 2000));
  }

  SQLite::Database database() {
    return SQLite::Database{(directory_.path() / "catalog.sqlite").string(), SQLite::OPEN_READONLY};
  }

  // What stands under "### `table`", up to the next heading.
  [[nodiscard]] std::string section(const std::string& table) const {
    const auto begin = document_.find("### `" + table + "`");
    if (begin == std::string::npos) return {};
    return document_.substr(begin, document_.find("\n##", begin + 1) - begin);
  }

  temporary_folder directory_;
  std::string document_;
};

TEST_F(catalog_document, names_every_table_and_every_column) {
  auto db = database();
  SQLite::Statement columns{
      db,
      "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
      " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"};
  int count = 0;
  while (columns.executeStep()) {
    const auto table = columns.getColumn(0).getString();
    const auto column = columns.getColumn(1).getString();
    EXPECT_NE(section(table).find("`" + column + "`"), std::string::npos)
        << table << "." << column << " is not in docs/catalog.md";
    ++count;
  }
  EXPECT_GT(count, 40);
}

TEST_F(catalog_document, every_example_query_runs_and_finds_something) {
  auto db = database();
  int count = 0;
  const std::string fence = "```sql\n";
  for (auto at = document_.find(fence); at != std::string::npos; at = document_.find(fence, at)) {
    at += fence.size();
    const auto sql = document_.substr(at, document_.find("```", at) - at);
    SQLite::Statement query{db, sql};
    EXPECT_TRUE(query.executeStep()) << sql;
    ++count;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace ftrt::storage
