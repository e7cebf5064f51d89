#include <actors/metrics/event_file.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>
#include <tests/actors/metrics/metrics_fixture.hpp>

namespace ftrt::metrics {
namespace {

using event_file_test = metrics_fixture;

// While it lives, no file of this process can grow beyond `bytes`: a disk that is full there.
class full_disk {
 public:
  explicit full_disk(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST(event_file_name, survives_text_and_back_with_dots_in_the_host) {
  const event_file_name name{1764500000, "node.example.org", 42, 7};
  EXPECT_EQ(name.text(), "events.out.tfevents.1764500000.node.example.org.42.000007");
  event_file_name parsed;
  ASSERT_TRUE(event_file_name::parse(name.text(), parsed));
  EXPECT_EQ(parsed.seconds, name.seconds);
  EXPECT_EQ(parsed.host, name.host);
  EXPECT_EQ(parsed.pid, name.pid);
  EXPECT_EQ(parsed.number, name.number);
}

TEST(event_file_name, is_not_read_from_other_names) {
  event_file_name parsed;
  for (const char* name :
       {"", "events.out.tfevents.", "events.out.tfevents.x.host.1.2", "events.out.tfevents.12",
        "events.out.tfevents.12.host.1.two", "notes"}) {
    EXPECT_FALSE(event_file_name::parse(name, parsed)) << name;
  }
}

TEST(event_file_name, the_next_one_sorts_behind_all_that_are_there) {
  std::vector<std::string> names{"notes.txt"};
  // Restarts within a second, by this process and others, and a clock that is set back.
  const struct {
    std::int64_t now;
    std::int64_t pid;
  } starts[] = {{1000, 9}, {1000, 9}, {1000, 3}, {1000, 9}, {990, 1}, {1010, 1}, {1010, 1}};
  for (const auto& start : starts) {
    const auto next = next_event_file_name(names, start.now, "host", start.pid).text();
    for (const auto& name : names) {
      if (name != "notes.txt") {
        EXPECT_LT(name, next);
      }
    }
    names.push_back(next);
  }
}

TEST_F(event_file_test, C14_a_write_that_a_full_disk_cuts_short_leaves_no_torn_record) {
  const auto path = directory_ / "events";
  auto file = event_file::create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append("whole"));
  {
    full_disk disk{8};
    const auto refused = file->append("does not fit");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(path.string()), std::string::npos);
  }
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  ASSERT_TRUE(file->usable());
  ASSERT_TRUE(file->append(" again"));
  EXPECT_EQ(std::filesystem::file_size(path), 11u);
}

TEST_F(event_file_test, an_existing_file_is_never_opened_for_writing) {
  const auto path = directory_ / "events";
  ASSERT_TRUE(event_file::create(path));
  EXPECT_FALSE(event_file::create(path));
}

}  // namespace
}  // namespace ftrt::metrics
