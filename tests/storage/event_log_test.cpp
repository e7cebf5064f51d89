#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <storage/event_log.hpp>
#include <tests/storage/support.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

using test::temporary_folder;
using testing::child_process;

event event_of(std::uint64_t iteration) {
  event what;
  what.what = event::kind::worker_lost;
  what.wall_time_ms = 1'700'000'000'000;
  what.generation = 2;
  what.iteration = iteration;
  what.rank = 1;
  what.subject = "trainer:1";
  what.text = "killed by signal 9 (SIGKILL)";
  return what;
}

std::string content(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

TEST(event_log, one_event_is_one_line_that_reads_back) {
  const temporary_folder folder;
  const auto file = folder.path() / "events.jsonl";
  auto log = event_log::open(file).value();
  ASSERT_TRUE(log.append(event_of(41)));
  auto none = event_of(42);
  none.rank = -1;
  none.text = "quotes \" and \\ and\nnewlines and \x01 and \xff bytes";
  ASSERT_TRUE(log.append(none));
  ASSERT_TRUE(log.sync());
  EXPECT_EQ(content(file).substr(0, content(file).find('\n')),
            R"x({"time_ms":1700000000000,"kind":"worker_lost","generation":2,"iteration":41,)x"
            R"x("rank":1,"subject":"trainer:1","text":"killed by signal 9 (SIGKILL)"})x");
  const auto read = read_event_log(file).value();
  ASSERT_EQ(read.events.size(), 2u);
  EXPECT_EQ(read.skipped_lines, 0u);
  EXPECT_EQ(read.events[0].rank, 1);
  EXPECT_EQ(read.events[0].what, event::kind::worker_lost);
  EXPECT_EQ(read.events[1].rank, -1);
  EXPECT_NE(read.events[1].text.find("quotes \" and \\ and\nnewlines"), std::string::npos);
}

TEST(event_log, C34_a_torn_tail_never_hides_what_came_before_or_after) {
  const temporary_folder folder;
  const auto file = folder.path() / "events.jsonl";
  const auto line = to_json_line(event_of(3));
  for (std::size_t kept = 0; kept <= line.size(); ++kept) {
    std::filesystem::remove(file);
    {
      auto log = event_log::open(file).value();
      ASSERT_TRUE(log.append(event_of(1)));
      ASSERT_TRUE(log.append(event_of(2)));
    }
    std::ofstream{file, std::ios::app} << line.substr(0, kept);
    auto log = event_log::open(file).value();
    ASSERT_TRUE(log.append(event_of(4)));
    const auto read = read_event_log(file).value();
    const bool whole = kept == line.size();
    ASSERT_EQ(read.events.size(), whole ? 4u : 3u) << kept;
    EXPECT_EQ(read.events[1].iteration, 2u);
    EXPECT_EQ(read.events.back().iteration, 4u);
    EXPECT_EQ(read.skipped_lines, whole || kept == 0 ? 0u : 1u);
  }
}

TEST(event_log, C34_a_killed_writer_leaves_whole_lines) {
  const temporary_folder folder;
  const auto file = folder.path() / "events.jsonl";
  child_process writer{[&] {
    auto log = event_log::open(file).value();
    for (std::uint64_t n = 0;; ++n) {
      if (!log.append(event_of(n))) return 1;
      if (n == 500) ::raise(SIGKILL);
    }
  }};
  EXPECT_EQ(writer.wait(), -SIGKILL);
  const auto read = read_event_log(file).value();
  EXPECT_EQ(read.events.size(), 501u);
  EXPECT_EQ(read.skipped_lines, 0u);
}

TEST(event_log, a_full_disk_is_reported_and_the_next_line_stands_alone) {
  auto log = event_log::open("/dev/full");
  ASSERT_TRUE(log.has_value()) << log.error().describe();
  EXPECT_EQ(log->append(event_of(1)).error().code, error_code::no_space);
}

TEST(event_log, foreign_lines_are_skipped_and_counted) {
  const temporary_folder folder;
  const auto file = folder.path() / "events.jsonl";
  std::ofstream{file} << "hello\n[1]\n{}\n{\"kind\":\"no such\"}\n\n"
                      << to_json_line(event_of(1)) << "\n";
  const auto read = read_event_log(file).value();
  EXPECT_EQ(read.events.size(), 1u);
  EXPECT_EQ(read.skipped_lines, 4u);
  EXPECT_EQ(read_event_log(folder.path() / "none").error().code, error_code::not_found);
}

}  // namespace
}  // namespace ftrt::storage
