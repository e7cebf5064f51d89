#include <fcntl.h>
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>

#include "tests/tools/support.hpp"
#include "tools/ftrt/mailbox.hpp"
#include "tools/ftrt/progress_view.hpp"
#include "tools/ftrt/summary_view.hpp"

namespace ftrt::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

progress at(std::uint64_t iteration) {
  progress moment;
  moment.iteration = iteration;
  moment.total_iterations = 2345;
  moment.train_loss = 0.25;
  moment.test_accuracy = std::nan("");
  moment.samples_per_second = 31'234;
  moment.eta_seconds = 12;
  moment.generation = 3;
  moment.ranks_alive = 1;
  moment.world_size = 2;
  return moment;
}

event killed() {
  event happened;
  happened.what = event::kind::worker_lost;
  happened.wall_time_ms = 1'700'000'000'000;
  happened.generation = 3;
  happened.iteration = 400;
  happened.rank = 1;
  happened.subject = "trainer:1";
  happened.text = "killed by signal 9\033[2J";
  return happened;
}

TEST(progress_view, a_line_tells_iteration_loss_speed_generation_and_ranks_alive) {
  EXPECT_EQ(progress_line(at(7), line_length::whole),
            "iteration 7/2345  loss 0.25  31.2k samples/s  ETA 12.0 s  generation 3  ranks 1/2");
  auto evaluated = at(7);
  evaluated.test_accuracy = 0.975;
  EXPECT_THAT(progress_line(evaluated, line_length::whole), HasSubstr("accuracy 97.50 %"));
}

TEST(progress_view, checkpoints_that_a_slow_disk_dropped_are_not_told_one_by_one) {
  // The only kind that is left out: `ftrt events` has them all, and a warning counts them.
  for (const auto kind : {event::kind::checkpoint_dropped, event::kind::checkpoint_failed,
                          event::kind::warning, event::kind::worker_lost}) {
    test::captured file;
    output out(file.fd());
    progress_view view(out, progress_view::style::plain);
    auto happened = killed();
    happened.what = kind;
    view.show(happened);
    EXPECT_EQ(file.text().empty(), kind == event::kind::checkpoint_dropped) << to_string(kind);
  }
}

TEST(progress_view, the_brief_line_fits_a_narrow_terminal) {
  auto moment = at(1'234'567);
  moment.total_iterations = 2'345'678;
  moment.train_loss = 0.0001234;
  moment.test_accuracy = 0.975;
  moment.eta_seconds = 36'000;
  const std::string line = progress_line(moment, line_length::brief);
  EXPECT_LT(line.size(), 96u) << line;
  moment = at(2345);
  moment.test_accuracy = 0.975;
  EXPECT_LT(progress_line(moment, line_length::brief).size(), 80u);
}

TEST(progress_view, an_event_is_one_line_whatever_is_in_its_text) {
  const std::string line = event_line(killed());
  EXPECT_THAT(line, HasSubstr("worker_lost  trainer:1  (rank 1, generation 3, iteration 400)"));
  EXPECT_THAT(line, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(line, Not(HasSubstr("\033")));
}

TEST(progress_view, without_a_terminal_a_line_comes_every_two_seconds_and_at_the_end) {
  test::captured file;
  output out(file.fd());
  progress_view view(out, progress_view::style::plain);
  const progress_view::clock::time_point start{};
  for (int i = 0; i < 50; ++i) {
    view.show(at(static_cast<std::uint64_t>(i)), start + milliseconds(100) * i);
  }
  view.finish();
  const std::string text = file.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);  // 0 s, 2 s, 4 s, and the last one
  EXPECT_THAT(text, HasSubstr("iteration 49/"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(progress_view, on_a_terminal_the_line_is_rewritten_and_events_scroll_above_it) {
  test::captured file;
  output out(file.fd());
  progress_view view(out, progress_view::style::terminal);
  view.show(at(1), {});
  view.show(killed());
  view.show(at(2), {});
  view.finish();
  const std::string text = file.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto event_at = text.find("worker_lost");
  EXPECT_LT(text.find("1/2345"), event_at);
  EXPECT_NE(text.find("1/2345", event_at), std::string::npos) << "drawn again below it";
  EXPECT_TRUE(text.ends_with("\r\033[K"));
}

TEST(progress_view, quiet_says_nothing) {
  test::captured file;
  output out(file.fd());
  progress_view view(out, progress_view::style::quiet);
  view.show(at(1), {});
  view.show(killed());
  view.finish();
  EXPECT_EQ(file.text(), "");
}

TEST(output, a_reader_that_went_away_is_no_failure_and_a_full_device_is_one) {
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  output piped(ends[1]);
  piped.write("anything");
  piped.write("more");
  EXPECT_EQ(piped.failure(), 0);
  ::close(ends[1]);

  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  output blocked(full);
  blocked.write("anything");
  EXPECT_EQ(blocked.failure(), ENOSPC);
  ::close(full);
}

TEST(mailbox, is_bounded_and_keeps_only_the_newest_progress) {
  mailbox box;
  for (std::size_t i = 0; i < mailbox::capacity + 3; ++i) box.push(killed());
  box.push(at(1));
  box.push(at(2));
  const auto got = box.take();
  EXPECT_EQ(got.events.size(), mailbox::capacity);
  EXPECT_EQ(got.dropped, 3u);
  ASSERT_TRUE(got.moment.has_value());
  EXPECT_EQ(got.moment->iteration, 2u);
  EXPECT_TRUE(box.take().events.empty());
}

TEST(summary_view, tells_what_people_ask_for) {
  run_summary summary;
  summary.run_id = "mnist-1";
  summary.status = "completed";
  summary.iterations = 2345;
  summary.test_accuracy = 0.9783;
  summary.weights_digest = "00112233445566778899aabbccddeeff";
  summary.checkpoints_committed = 4;
  summary.last_checkpoint_iteration = 2345;
  summary.goodput = 0.99;
  summary.recoveries.assign(20,
                            {2, 1, "trainer:1", "killed by signal 9", "survivor:0", 0.4, 61, 0});
  const std::string text = describe(summary, "/runs/mnist-1");
  for (const char* part :
       {"run mnist-1: completed", "97.83 %", "00112233445566778899aabbccddeeff", "20 lost ranks",
        "noticed in 0.40 ms, trained on after 61.0 ms", "state from survivor:0", "and 8 more",
        "4 committed, the last at iteration 2345", "goodput 99.00 %", "/runs/mnist-1"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace ftrt::cli
