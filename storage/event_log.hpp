#pragma once

#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/event.hpp>
#include <schemas/unique_fd.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

// `events.jsonl` of a run: one JSON object a line, appended as things happen, for `tail -f` and for
// programs. It is written at once and without a database, so it also has what the catalog lost.
//
//   {"time_ms":1700000000000,"kind":"worker_lost","generation":2,"iteration":41,"rank":1,
//    "subject":"trainer:1","text":"killed by signal 9 (SIGKILL)"}        (on one line; no rank:
//    null)
//
// A line is one write(). A line that a crash tore stays where it is, and the next one begins on a
// line of its own, so that a reader loses that one at most (C34). Not thread-safe; append() blocks
// for the page cache, not for the disk.
class event_log {
 public:
  // Creates the file or goes on at its end.
  [[nodiscard]] static result<event_log> open(const std::filesystem::path& file);

  [[nodiscard]] result<void> append(const event& what);
  // Returns once everything appended is on the disk.
  [[nodiscard]] result<void> sync();

 private:
  event_log(unique_fd fd, bool torn) : fd_(std::move(fd)), torn_(torn) {}
  unique_fd fd_;
  bool torn_ = false;  // the last line has no end
};

// One line, without its end. Text that is not UTF-8 is repaired, never refused.
[[nodiscard]] std::string to_json_line(const event& what);

struct event_log_content {
  std::vector<event> events;
  std::size_t skipped_lines = 0;  // torn or foreign
};
[[nodiscard]] result<event_log_content> read_event_log(const std::filesystem::path& file);

}  // namespace ftrt::storage
