#include "tools/ftrt/progress_view.hpp"

#include <cmath>
#include <cstdio>

#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

constexpr std::string_view erase_line = "\r\033[K";

std::string place_of(const event& happened) {
  std::string place = "generation " + std::to_string(happened.generation) + ", iteration " +
                      std::to_string(happened.iteration);
  if (happened.rank >= 0) place = "rank " + std::to_string(happened.rank) + ", " + place;
  return place;
}

}  // namespace

std::string progress_line(const progress& moment, line_length length) {
  const bool brief = length == line_length::brief;
  const auto word = [brief](const char* whole, const char* cut) { return brief ? cut : whole; };
  std::string line = word("iteration ", "") + std::to_string(moment.iteration) + '/' +
                     std::to_string(moment.total_iterations);
  if (moment.iteration == 0) return line + "  starting";
  line += "  loss " + format_number(moment.train_loss, 4);
  if (std::isfinite(moment.test_accuracy)) {
    line += word("  accuracy ", "  acc ") + format_percent(moment.test_accuracy);
  }
  line += "  " + format_rate(moment.samples_per_second, word(" samples/s", "/s")) + "  ETA " +
          format_seconds(moment.eta_seconds) + word("  generation ", "  gen ") +
          std::to_string(moment.generation) + "  ranks " + std::to_string(moment.ranks_alive) +
          '/' + std::to_string(moment.world_size);
  return line;
}

std::string event_line(const event& happened) {
  std::string line = format_clock(happened.wall_time_ms) + "  ";
  line += to_string(happened.what);
  if (!happened.subject.empty()) line += "  " + happened.subject;
  line += "  (" + place_of(happened) + ")";
  if (!happened.text.empty()) line += "  " + happened.text;
  return printable(line);
}

void progress_view::redraw() {
  // One column stays free: some terminals wrap when the last one is filled.
  const auto columns = static_cast<std::size_t>(out_.columns());
  const auto& line = display_width(line_) < columns ? line_ : brief_;
  out_.write(std::string(erase_line) + std::string(clipped(line, columns > 1 ? columns - 1 : 1)));
  shown_ = line_;
}

void progress_view::show(const progress& moment, clock::time_point now) {
  if (style_ == style::quiet) return;
  line_ = progress_line(moment, line_length::whole);
  brief_ = progress_line(moment, line_length::brief);
  if (line_ == shown_) return;
  if (style_ == style::terminal) {
    redraw();
  } else if (shown_.empty() || now - shown_at_ >= plain_interval) {
    out_.write(line_ + '\n');
    shown_ = line_;
    shown_at_ = now;
  }
}

void progress_view::show_line(std::string_view line) {
  if (style_ == style::quiet) return;
  if (style_ == style::plain) {
    out_.write(std::string(line) + '\n');
  } else {
    out_.write(std::string(erase_line) + std::string(line) + '\n');
    if (!line_.empty()) redraw();
  }
}

void progress_view::finish() {
  if (style_ == style::terminal) out_.write(erase_line);
  if (style_ == style::plain && line_ != shown_) out_.write(line_ + '\n');
  line_.clear();
  shown_.clear();
}

}  // namespace ftrt::cli
