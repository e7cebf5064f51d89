#pragma once

#include <chrono>
#include <cstdint>
#include <ftrt/types.hpp>
#include <mutex>
#include <optional>
#include <string>

namespace ftrt::actors {

// Counts the snapshots that were to become checkpoints and did not, and says what a person is told
// of them: the first at once, further ones together, each `interval`, the rest at the end of the
// run. The disk is blamed where sets waited for it. What was overwritten before it was first looked
// at, or went just after this process had stood still (it was stopped, or got no processor), is not
// the disk's fault.
//
//   account.looked(now);                                    // often
//   if (auto text = account.drop(iteration, true, now)) warn(*text);
//   if (auto text = account.rest()) warn(*text);            // at the end
//
// Belongs to the run, as an actor that is restarted would forget what it has not told. Any thread.
// Times are of a monotonic clock that no chaos lets jump.
class drop_account {
 public:
  explicit drop_account(std::uint64_t every_iterations) : every_iterations_(every_iterations) {}

  // Somebody begins to look after the snapshots. While nobody did, the process went on.
  void taken_up(std::chrono::nanoseconds now);
  // Somebody looks after them.
  void looked(std::chrono::nanoseconds now);
  [[nodiscard]] std::optional<std::string> drop(iteration_id iteration, bool waited,
                                                std::chrono::nanoseconds now);
  [[nodiscard]] std::optional<std::string> rest();

  static constexpr std::chrono::seconds interval{30};
  // Nobody looked for so long: the process stood still.
  static constexpr std::chrono::milliseconds standstill{500};
  // For so long after it everything is late.
  static constexpr std::chrono::seconds aftermath{1};

 private:
  void note_gap(std::chrono::nanoseconds now);
  [[nodiscard]] std::string take();

  const std::uint64_t every_iterations_;
  std::mutex mutex_;
  std::uint64_t untold_ = 0;
  std::uint64_t own_ = 0;  // of these, not the disk's fault
  bool stood_ = false;     // some of these because the process had stood still
  iteration_id last_;
  std::optional<std::chrono::nanoseconds> told_at_;
  std::optional<std::chrono::nanoseconds> looked_at_;
  std::optional<std::chrono::nanoseconds> stood_until_;
  std::chrono::nanoseconds stood_for_{};
};

}  // namespace ftrt::actors
