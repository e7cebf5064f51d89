#pragma once

#include <chrono>
#include <cstdint>
#include <ftrt/event.hpp>
#include <ftrt/run.hpp>
#include <string>
#include <string_view>

#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

enum class line_length : std::uint8_t { whole, brief };

// One line that tells where a run stands; the brief one fits 80 columns.
[[nodiscard]] std::string progress_line(const progress& moment, line_length length);
// One line that tells what happened.
[[nodiscard]] std::string event_line(const event& happened);

// A run as a person watches it. On a terminal: one progress line, rewritten in place, with events
// scrolling by above it. Elsewhere: plain lines, progress at most every two seconds and only when
// the run moved. Main thread only.
class progress_view {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds plain_interval{2};

  enum class style : std::uint8_t { terminal, plain, quiet };

  progress_view(output& out, style how) : out_(out), style_(how) {}

  void show(const progress& moment, clock::time_point now);
  // Not each dropped checkpoint: a slow disk makes many, and a warning now and then counts them.
  void show(const event& happened) {
    if (happened.what != event::kind::checkpoint_dropped) show_line(event_line(happened));
  }
  void show_line(std::string_view line);
  // Clears the progress line, or, where it is plain, shows the last one that was held back.
  void finish();

 private:
  void redraw();

  output& out_;
  style style_;
  std::string line_;   // the newest progress
  std::string brief_;  // the same for a narrow terminal
  std::string shown_;  // the one on the screen
  clock::time_point shown_at_{};
};

}  // namespace ftrt::cli
