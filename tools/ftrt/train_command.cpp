#include "tools/ftrt/train_command.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>

#include "tools/ftrt/atomic_file.hpp"
#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/progress_view.hpp"
#include "tools/ftrt/summary_view.hpp"
#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

bool summary_to_stdout(const options& asked) {
  return asked.summary == "-";
}

progress_view::style style_for(const options& asked, const output& story) {
  if (asked.quiet) return progress_view::style::quiet;
  return story.is_terminal() ? progress_view::style::terminal : progress_view::style::plain;
}

// One run under the eyes of the main thread.
class watch {
 public:
  watch(const starter& start, signals& interrupts, progress_view& view, output& errors)
      : interrupts_(interrupts), view_(view), errors_(errors), runner_(start, news_) {}

  outcome until_the_end() {
    while (!runner_.finished()) {
      wait_for_news();
      show_news();
      while (const auto number = interrupts_.take()) obey(*number);
    }
    outcome ended = runner_.take();
    show_news();
    view_.finish();
    return ended;
  }

  [[nodiscard]] std::optional<int> stopped_by() const { return signal_; }
  // A second signal asked to do without the last checkpoint.
  [[nodiscard]] bool in_a_hurry() const { return in_a_hurry_; }

 private:
  void wait_for_news() {
    std::array entries{pollfd{interrupts_.fd(), POLLIN, 0}, pollfd{news_.fd(), POLLIN, 0}};
    ::poll(entries.data(), entries.size(), 1000);
  }

  void show_news() {
    const auto news = news_.take();
    for (const auto& happened : news.events) view_.show(happened);
    if (news.dropped > 0) {
      view_.show_line("(" + std::to_string(news.dropped) + " events not shown; see `ftrt events`)");
    }
    if (news.moment) view_.show(*news.moment, progress_view::clock::now());
  }

  void obey(int number) {
    const bool first = !signal_;
    signal_ = number;
    const std::string name = signal_name(number);
    if (first) {
      view_.show_line(name + ": stopping after a checkpoint; once more stops at once");
      runner_.request_stop(name);
    } else if (runner_.starting()) {
      // Nothing has been trained, and workers end by themselves when this process is gone.
      view_.finish();
      errors_.write("ftrt: " + name + " while starting: left at once\n");
      std::_Exit(128 + number);
    } else {
      view_.show_line(name + ": stopping at once");
      in_a_hurry_ = true;
      runner_.stop_now();
    }
  }

  signals& interrupts_;
  progress_view& view_;
  output& errors_;
  mailbox news_;
  run_thread runner_;
  std::optional<int> signal_;
  bool in_a_hurry_ = false;
};

// A start that failed is an outcome as well; one that was refused leaves nothing behind.
run_summary summary_of(const outcome& ended) {
  if (ended.started) return ended.summary;
  run_summary summary;
  summary.status = "failed";
  if (ended.not_started.failed) summary.error = ended.not_started.failed->describe();
  return summary;
}

exit_code write_summary(const options& asked, const outcome& ended, output& out, output& errors) {
  if (asked.summary.empty()) return exit_code::done;
  const std::string text = to_json(summary_of(ended)) + '\n';
  if (summary_to_stdout(asked)) {
    out.write(text);
    return check_written(out, errors);
  }
  const auto written = write_atomically(asked.summary, text);
  if (written) return exit_code::done;
  (void)complain(errors, written.error());
  return exit_code::failed;
}

bool met(const run_summary& summary) {
  return std::ranges::all_of(summary.expectations, &expectation::met);
}

// A failure that the scenario asks for is none of the command's.
bool is_as_expected(const run_summary& summary) {
  const auto status = std::ranges::find(summary.expectations, "status", &expectation::name);
  return summary.status == "failed" && status != summary.expectations.end() && status->met;
}

void complain_of_expectations(const run_summary& summary, output& errors) {
  for (const auto& each : summary.expectations) {
    if (each.met) continue;
    errors.write("ftrt: expect." + printable(each.name) + ": expected " + printable(each.expected) +
                 ", found " + printable(each.found) + '\n');
  }
}

int code_of(const outcome& ended, std::optional<int> signal, output& errors) {
  if (!ended.started) {
    const auto code = complain(errors, ended.not_started);
    const bool gave_way = signal && code == exit_code::failed;
    return gave_way ? 128 + *signal : static_cast<int>(code);
  }
  if (!met(ended.summary)) return static_cast<int>(exit_code::failed);
  if (ended.summary.status == "completed" || is_as_expected(ended.summary)) {
    return static_cast<int>(exit_code::done);
  }
  // Without a signal of ours it was asked from outside (`ftrt stop`): as SIGTERM would have it.
  if (ended.summary.status == "stopped") return 128 + signal.value_or(SIGTERM);
  return static_cast<int>(exit_code::failed);
}

}  // namespace

int train(const options& asked, const starter& start, signals& interrupts, output& out,
          output& errors) {
  if (!asked.summary.empty() && !summary_to_stdout(asked)) {
    // Better now than after an hour of training.
    if (const auto good = probe_writable(asked.summary); !good) {
      (void)complain(errors, good.error());
      return static_cast<int>(exit_code::refused);
    }
  }
  output& story = summary_to_stdout(asked) ? errors : out;
  progress_view view(story, style_for(asked, story));
  watch watched(start, interrupts, view, errors);
  const outcome ended = watched.until_the_end();

  if (ended.started && !asked.quiet) story.write(describe(ended.summary, ended.directory));
  if (ended.started && ended.summary.status == "failed") {
    errors.write("ftrt: the run failed: " + printable(ended.summary.error) + '\n');
  }
  // A story that nobody could read makes no training fail, but is no secret.
  if (!summary_to_stdout(asked)) (void)check_written(out, errors);
  complain_of_expectations(ended.summary, errors);
  int code = code_of(ended, watched.stopped_by(), errors);
  if (ended.started && ended.summary.status == "stopped" && !ended.summary.error.empty() &&
      !watched.in_a_hurry()) {
    // 130 and 143 promise a committed checkpoint.
    errors.write("ftrt: stopped, but not in order: " + printable(ended.summary.error) + '\n');
    code = static_cast<int>(exit_code::failed);
  }
  // A run that was refused never was.
  if (code == static_cast<int>(exit_code::refused)) return code;
  const auto written = write_summary(asked, ended, out, errors);
  return code == 0 ? static_cast<int>(written) : code;
}

}  // namespace ftrt::cli
