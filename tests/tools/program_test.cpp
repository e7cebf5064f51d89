// The built `ftrt`, as a shell would call it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/tools/support.hpp"

namespace ftrt::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

struct ended {
  int code = -1;
  std::string out;
  std::string errors;
};

// Runs ftrt in `folder` to its end. Its standard output can be replaced by a descriptor.
ended run_ftrt(const std::filesystem::path& folder, std::vector<std::string> arguments,
               int out_fd = -1) {
  const test::captured out;
  const test::captured errors;
  arguments.insert(arguments.begin(), (test::programs() / "ftrt").string());
  std::vector<char*> words;
  for (auto& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  ::posix_spawn_file_actions_adddup2(&actions, out_fd < 0 ? out.fd() : out_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.fd(), STDERR_FILENO);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, words.front(), &actions, nullptr, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {-1, "", "cannot start " + arguments.front()};
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return {code, out.text(), errors.text()};
}

std::filesystem::path write_scenario(const std::filesystem::path& folder, const std::string& text) {
  auto file = folder / "broken.toml";
  std::ofstream(file) << text;
  return file;
}

TEST(ftrt_program, help_shows_examples_and_version_one_line) {
  const test::temporary_folder folder;
  const auto help = run_ftrt(folder.path(), {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr("ftrt resume")));
  EXPECT_THAT(help.errors, IsEmpty());
  const auto version = run_ftrt(folder.path(), {"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, MatchesRegex("ftrt [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(ftrt_program, usage_that_makes_no_sense_exits_with_2) {
  const test::temporary_folder folder;
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"--no-such-option"}, {"trian"}, {"--scenario"}, {"events", "a", "b"}}) {
    const auto got = run_ftrt(folder.path(), words);
    EXPECT_EQ(got.code, 2);
    EXPECT_THAT(got.out, IsEmpty());
    EXPECT_THAT(got.errors, HasSubstr("ftrt --help"));
  }
}

TEST(ftrt_program, C36_a_broken_scenario_exits_with_2_names_each_fault_and_leaves_nothing) {
  const test::temporary_folder folder;
  const auto file = write_scenario(folder.path(),
                                   "[train]\n"
                                   "epoch = 5\n"
                                   "lr = -0.1\n");
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--scenario", file.string(), "--summary", "s.json"}, {"check", file.string()}}) {
    const auto got = run_ftrt(folder.path(), words);
    EXPECT_EQ(got.code, 2);
    EXPECT_THAT(got.out, IsEmpty());
    EXPECT_THAT(got.errors, AllOf(HasSubstr("broken.toml:2: "), HasSubstr("epochs"),
                                  HasSubstr("broken.toml:3: train.lr: expected")));
    EXPECT_GE(std::count(got.errors.begin(), got.errors.end(), '\n'), 2);
    EXPECT_EQ(folder.entries(), 1u) << "something was left behind";
  }
}

TEST(ftrt_program, a_scenario_that_is_not_there_exits_with_2_and_names_it) {
  const test::temporary_folder folder;
  const auto got = run_ftrt(folder.path(), {"--scenario", "missing\033[2J.toml"});
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.errors, HasSubstr("missing\\x1b[2J.toml"));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(ftrt_program, where_nothing_was_run_there_are_no_runs_and_nothing_to_resume) {
  const test::temporary_folder folder;
  const auto json = run_ftrt(folder.path(), {"runs", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_EQ(json.out, "[]\n");
  EXPECT_THAT(run_ftrt(folder.path(), {"runs"}).out, HasSubstr("no runs in runs"));
  for (const char* command : {"events", "checkpoints", "resume"}) {
    const auto got = run_ftrt(folder.path(), {command});
    EXPECT_EQ(got.code, 2) << command;
    EXPECT_THAT(got.errors, HasSubstr("ftrt: ")) << command;
  }
  EXPECT_EQ(run_ftrt(folder.path(), {"runs", "--runs-directory", "elsewhere"}).code, 2);
  EXPECT_EQ(folder.entries(), 0u) << "looking must not create anything";
}

TEST(ftrt_program, a_reader_that_leaves_early_is_no_failure_and_a_full_disk_is_one) {
  const test::temporary_folder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::close(ends[0]);
  const auto piped = run_ftrt(folder.path(), {"runs"}, ends[1]);
  ::close(ends[1]);
  EXPECT_EQ(piped.code, 0);
  EXPECT_THAT(piped.errors, IsEmpty());

  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const std::string command : {"runs", "--version", "--help"}) {
    const auto blocked = run_ftrt(folder.path(), {command}, full);
    EXPECT_EQ(blocked.code, 1) << command;
    EXPECT_THAT(blocked.errors, HasSubstr("cannot write the output")) << command;
  }
  ::close(full);
}

}  // namespace
}  // namespace ftrt::cli
