#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <sstream>
#include <storage/run_directory.hpp>
#include <tests/storage/support.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;
using testing::child_process;
using testing::signal_pipe;

TEST(run_directory, a_new_one_is_private_complete_and_holds_the_scenario) {
  const temporary_folder runs;
  const auto run = run_directory::create(runs.path(), "mnist", "[run]\n", 1024);
  ASSERT_TRUE(run.has_value()) << run.error().describe();
  EXPECT_EQ(run->path(), runs.path() / run->id());
  EXPECT_EQ(run->id().substr(0, 6), "mnist-");
  EXPECT_EQ(fs::status(run->path()).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_directory(run->checkpoints()));
  EXPECT_TRUE(fs::is_directory(run->tensorboard()));
  EXPECT_TRUE(fs::is_directory(run->worker_logs()));
  std::stringstream text;
  text << std::ifstream{run->scenario_file()}.rdbuf();
  EXPECT_EQ(text.str(), "[run]\n");
  EXPECT_EQ(run->checkpoint(2, 400).filename(), "0002-000000000400");
}

TEST(run_directory, a_name_never_leads_out_of_the_folder) {
  const temporary_folder runs;
  const std::vector<std::string> names{"../../etc", "a/b", "", ".", "\n", std::string(500, 'x')};
  for (const auto& name : names) {
    const auto run = run_directory::create(runs.path(), name, "", 0);
    ASSERT_TRUE(run.has_value()) << run.error().describe();
    EXPECT_EQ(run->path().parent_path(), runs.path());
    EXPECT_EQ(run->id().find('/'), std::string::npos);
    EXPECT_NE(run->id().front(), '.');
  }
}

TEST(run_directory, C14_too_little_space_is_found_at_the_start_and_nothing_is_left_behind) {
  const temporary_folder parent;
  const auto runs = parent.path() / "deep" / "runs";
  const auto run = run_directory::create(runs, "mnist", "", std::uint64_t{1} << 62);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, error_code::no_space);
  EXPECT_NE(run.error().message.find("this run needs 4611686018427387904"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(run_directory, C14_a_folder_that_cannot_be_written_is_found_at_the_start) {
  const temporary_folder parent;
  std::ofstream{parent.path() / "file"} << "x";
  const auto below_file = run_directory::create(parent.path() / "file" / "runs", "mnist", "", 0);
  EXPECT_FALSE(below_file.has_value());
  ::chmod(parent.path().c_str(), 0500);
  child_process somebody{[&] {
    // Root may write anywhere, so be somebody else.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    const auto refused = run_directory::create(parent.path() / "runs", "mnist", "", 0);
    return !refused && refused.error().code == error_code::refused ? 0 : 1;
  }};
  EXPECT_EQ(somebody.wait(), 0);
  ::chmod(parent.path().c_str(), 0700);
}

TEST(run_directory, C14_resuming_on_a_full_disk_is_refused_with_the_arithmetic_and_can_be_retried) {
  const temporary_folder runs;
  const auto path = run_directory::create(runs.path(), "mnist", "", 0)->path();
  const auto checkpoints = path / "checkpoints";
  for (const auto* name : {"large", "small"}) fs::create_directory(checkpoints / name);
  std::ofstream{checkpoints / "large" / "manifest.bin"} << std::string(100, 'x');
  std::ofstream{checkpoints / "large" / "part"} << std::string(1000, 'x');
  std::ofstream{checkpoints / "small" / "manifest.bin"} << std::string(200, 'x');
  const auto full = run_directory::open(path, std::uint64_t{1} << 62);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, error_code::no_space);
  const std::vector<std::string> expected{
      checkpoints.string() + " is on a disk with ",
      "needs 4611686018427389004 (1100 for one more checkpoint, the largest so far, + "
      "4611686018427387904 for the rest)"};
  for (const auto& text : expected) {
    EXPECT_NE(full.error().message.find(text), std::string::npos) << full.error().message;
  }
  EXPECT_FALSE(find_holder(path).has_value());
  const auto retried = run_directory::open(path, 0);
  EXPECT_TRUE(retried.has_value()) << retried.error().describe();
  EXPECT_FALSE(fs::exists(path / "write-probe"));
  EXPECT_FALSE(fs::exists(checkpoints / "write-probe"));
}

TEST(run_directory, C14_what_a_crash_left_half_written_is_removed_before_space_is_asked_for) {
  const temporary_folder runs;
  const auto path = run_directory::create(runs.path(), "mnist", "", 0)->path();
  const auto half = path / "checkpoints" / "0001-000000000100";
  fs::create_directory(half);
  std::ofstream{half / "part-00000-of-00001.safetensors.tmp"} << "half";
  EXPECT_FALSE(run_directory::open(path, std::uint64_t{1} << 62).has_value());
  EXPECT_FALSE(fs::exists(half));
}

// Makes a run, takes the permissions of one of its folders away, and tries to resume it, as
// somebody who may not write anywhere: root may. 0: refused, and the message names the run.
int resume_without_access_to(const std::string& folder, fs::perms permissions) {
  if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
  const temporary_folder runs;
  const auto path = run_directory::create(runs.path(), "mnist", "", 0)->path();
  fs::permissions(path / folder, permissions);
  const auto refused = run_directory::open(path);
  fs::permissions(path / folder, fs::perms::owner_all);
  if (refused.has_value() || refused.error().code != error_code::refused) return 1;
  const auto& text = refused.error().message;
  const bool named =
      text.find("the run directory " + path.string() + " cannot be written") != std::string::npos;
  return named ? 0 : 3;
}

TEST(run_directory, C14_resuming_a_read_only_run_is_refused_and_names_its_folder) {
  const auto read_only = fs::perms::owner_read | fs::perms::owner_exec;
  child_process whole{[&] { return resume_without_access_to("", read_only); }};
  EXPECT_EQ(whole.wait(), 0);
  child_process checkpoints{[&] { return resume_without_access_to("checkpoints", read_only); }};
  EXPECT_EQ(checkpoints.wait(), 0);
  child_process lock{[&] { return resume_without_access_to("lock", fs::perms::owner_read); }};
  EXPECT_EQ(lock.wait(), 0);
}

TEST(run_directory, C15_a_second_process_fails_promptly_and_names_the_holder) {
  const temporary_folder runs;
  const auto path = run_directory::create(runs.path(), "mnist", "", 0)->path();
  const signal_pipe held;
  // The holder takes it after the fork: a lock of ours would be shared with the child.
  child_process holder{[&] {
    const auto run = run_directory::open(path);
    if (!run) return 1;
    held.say();
    ::pause();
    return 0;
  }};
  held.wait();
  const auto second = run_directory::open(path);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, error_code::busy);
  EXPECT_NE(second.error().message.find("pid " + std::to_string(holder.pid()) + " on "),
            std::string::npos)
      << second.error().message;
  EXPECT_TRUE(find_holder(path).has_value());
  holder.kill();
  EXPECT_FALSE(find_holder(path).has_value());
  const auto third = run_directory::open(path);
  EXPECT_TRUE(third.has_value()) << third.error().describe();
}

TEST(run_directory, C15_two_holders_in_one_process_exclude_each_other_too) {
  const temporary_folder runs;
  const auto first = run_directory::create(runs.path(), "mnist", "", 0).value();
  EXPECT_EQ(run_directory::open(first.path()).error().code, error_code::busy);
}

TEST(run_directory, a_folder_that_is_no_run_is_not_taken_for_one) {
  const temporary_folder runs;
  EXPECT_EQ(run_directory::open(runs.path()).error().code, error_code::not_found);
  EXPECT_EQ(run_directory::open(runs.path() / "none").error().code, error_code::not_found);
  EXPECT_TRUE(fs::is_empty(runs.path()));
}

TEST(run_directory, a_discarded_one_is_gone) {
  const temporary_folder runs;
  auto run = run_directory::create(runs.path(), "mnist", "", 0).value();
  run.discard();
  EXPECT_TRUE(fs::is_empty(runs.path()));
}

}  // namespace
}  // namespace ftrt::storage
