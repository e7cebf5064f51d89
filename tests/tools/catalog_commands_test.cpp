#include "tools/ftrt/catalog_commands.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <storage/catalog.hpp>
#include <storage/run_directory.hpp>

#include "tests/tools/support.hpp"

namespace ftrt::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t noon_ms = 1'700'000'000'000;

event lost_rank() {
  event happened;
  happened.what = event::kind::worker_lost;
  happened.wall_time_ms = noon_ms + 1000;
  happened.generation = 1;
  happened.iteration = 399;
  happened.rank = 1;
  happened.subject = "trainer:1";
  happened.text = "killed by signal 9 (SIGKILL)\033[2J";
  return happened;
}

storage::checkpoint_manifest manifest_of(const std::string& run_id) {
  storage::checkpoint_manifest manifest;
  manifest.run_id = run_id;
  manifest.branch = branch_id{1};
  manifest.generation = generation_id{1};
  manifest.iteration = iteration_id{400};
  manifest.world_size = 2;
  manifest.created_ms = noon_ms + 2000;
  storage::shard_entry shard;
  shard.file = "part-00000-of-00001.safetensors";
  shard.bytes = 1536;
  shard.digest = std::string(32, 'a');
  manifest.shards.push_back(shard);
  return manifest;
}

// One run that lost a rank and committed a checkpoint, made by the room that makes real ones.
class catalog_commands : public ::testing::Test {
 protected:
  void SetUp() override {
    asked_.runs_directory = folder_.path() / "runs";
    auto made = storage::run_directory::create(asked_.runs_directory, "demo", "", 0);
    ASSERT_TRUE(made) << made.error().describe();
    id_ = made->id();
    std::vector<std::string> notes;
    auto opened = storage::catalog::open(made->path(), id_, notes);
    ASSERT_TRUE(opened) << opened.error().describe();
    fill(*opened, made->path());
  }

  void fill(storage::catalog& catalog, const std::filesystem::path& directory) {
    ASSERT_TRUE(catalog.begin_run(id_, "demo", noon_ms));
    ASSERT_TRUE(catalog.begin_generation(generation_id{1}, branch_id{1}, iteration_id{0}, "start",
                                         noon_ms));
    ASSERT_TRUE(catalog.add_checkpoint(manifest_of(id_), directory / "checkpoints" / "1-400",
                                       storage::checkpoint_state::verified));
    const std::array happened{lost_rank()};
    ASSERT_TRUE(catalog.add_events(happened));
    ASSERT_TRUE(catalog.end_run(id_, "completed", 500, "{}", noon_ms + 4200));
  }

  template <class Command>
  std::string shown_by(Command show) {
    const test::captured file;
    output out(file.fd());
    EXPECT_EQ(show(asked_, out, errors_), exit_code::done) << stderr_.text();
    return file.text();
  }

  test::temporary_folder folder_;
  test::captured stderr_;
  output errors_{stderr_.fd()};
  options asked_;
  std::string id_;
};

TEST_F(catalog_commands, runs_are_a_table_for_people_and_an_array_for_programs) {
  EXPECT_THAT(shown_by(show_runs), AllOf(HasSubstr("run "), HasSubstr(id_), HasSubstr("completed"),
                                         HasSubstr("4.2 s"), HasSubstr("500")));
  asked_.json = true;
  const json rows = json::parse(shown_by(show_runs));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("run_id"), id_);
  EXPECT_EQ(rows[0].at("name"), "demo");
  EXPECT_EQ(rows[0].at("status"), "completed");
  EXPECT_EQ(rows[0].at("iterations"), 500);
  EXPECT_EQ(rows[0].at("ended_ms"), noon_ms + 4200);
}

TEST_F(catalog_commands, checkpoints_tell_iteration_state_and_size) {
  EXPECT_THAT(shown_by(show_checkpoints),
              AllOf(HasSubstr(id_), HasSubstr("400"), HasSubstr("verified"), HasSubstr("1.5 KiB")));
  asked_.json = true;
  const json rows = json::parse(shown_by(show_checkpoints));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("iteration"), 400);
  EXPECT_EQ(rows[0].at("state"), "verified");
  EXPECT_EQ(rows[0].at("bytes"), 1536);
  EXPECT_EQ(rows[0].at("shards"), 1);
}

TEST_F(catalog_commands, events_tell_what_died_and_cannot_move_the_cursor) {
  EXPECT_THAT(shown_by(show_events),
              AllOf(HasSubstr("worker_lost"), HasSubstr("trainer:1"),
                    HasSubstr("killed by signal 9 (SIGKILL)\\x1b[2J"), Not(HasSubstr("\033"))));
  asked_.json = true;
  const json rows = json::parse(shown_by(show_events));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("kind"), "worker_lost");
  EXPECT_EQ(rows[0].at("rank"), 1);
  EXPECT_EQ(rows[0].at("text"), lost_rank().text) << "programs get what was said";
}

TEST_F(catalog_commands, a_unique_beginning_names_a_run_and_an_unknown_one_is_refused) {
  asked_.run_id = id_.substr(0, 4);
  EXPECT_THAT(shown_by(show_events), HasSubstr(id_));
  asked_.run_id = "nothing-like-it";
  const test::captured file;
  output out(file.fd());
  EXPECT_EQ(show_events(asked_, out, errors_), exit_code::refused);
  EXPECT_THAT(stderr_.text(), HasSubstr("nothing-like-it"));
  EXPECT_THAT(file.text(), IsEmpty());
}

}  // namespace
}  // namespace ftrt::cli
