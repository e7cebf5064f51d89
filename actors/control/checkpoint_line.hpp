#pragma once

#include <actors/control/snapshot_sets.hpp>
#include <chrono>
#include <cstdint>
#include <ftrt/error.hpp>
#include <functional>
#include <optional>
#include <vector>

namespace ftrt::actors {

// A set that will not become a checkpoint, and why: aborted where a newer one was better.
struct dropped_set {
  snapshot_set set;
  error why;
};

// Which complete snapshots become checkpoints. Where steps take milliseconds a slot is overwritten
// long before the disk has time for it, so a set is held as soon as it is complete, and waits
// behind those that are being written. As many sets are held as leave each worker a slot to write
// into (the slots themselves see to that); one more waits, unheld. When a newer one completes
// meanwhile, the newer one is worth more: the other is dropped.
//
// Pure but for `hold`: no actor, no clock. Lives with the checkpoint actor.
class checkpoint_line {
 public:
  // Busy: not yet; any other error: never.
  using holder = std::function<result<held_set>(snapshot_set)>;
  explicit checkpoint_line(holder hold) : hold_(std::move(hold)) {}

  struct decision {
    std::optional<held_set> held;  // to be written now
    std::vector<dropped_set> dropped;
  };
  // A set is complete.
  [[nodiscard]] decision offer(snapshot_set set);
  // Slots may have been released.
  [[nodiscard]] decision retry();

 private:
  void serve(decision& made);

  holder hold_;
  std::optional<snapshot_set> waiting_;
};

// Says how many drops a person is told of now: the first at once, further ones together, each
// `interval`. `now` is monotonic time.
class drop_warnings {
 public:
  [[nodiscard]] std::optional<std::uint64_t> count(std::chrono::nanoseconds now);

  static constexpr std::chrono::seconds interval{30};

 private:
  std::uint64_t untold_ = 0;
  std::optional<std::chrono::nanoseconds> told_at_;
};

}  // namespace ftrt::actors
