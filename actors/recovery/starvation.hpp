#pragma once

#include <chrono>
#include <optional>

#include <actors/recovery/events.hpp>

namespace ftrt::recovery {

// What the kernel says of a training thread: how long it has had a processor since it began, how
// long it has waited for one (a wait is added when it ends), and whether it is or could be on one.
struct processor_use {
  std::chrono::nanoseconds ran{};
  std::chrono::nanoseconds waited{};
  bool runnable = false;
};

// How long one training thread has wanted a processor and got none: time in which it could not make
// progress, so that none may be expected. Pure; lives with the progress_watch.
//
//   starvation starved;
//   starved.note(now, use);           // at a look
//   const auto before = starved.total();
//   ...
//   starved.note(later, use_then);
//   excused = starved.total() - before;
class starvation {
 public:
  // `use` as of `now`; nullopt: not known this time.
  void note(time_point now, const std::optional<processor_use>& use);
  // As of the last note; empty before the first one that knew.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> total() const;

 private:
  std::optional<processor_use> last_;
  time_point still_since_{};  // runnable at each note since, and has neither run nor begun to
  std::chrono::nanoseconds pending_{};  // of a wait that lasts
};

}  // namespace ftrt::recovery
