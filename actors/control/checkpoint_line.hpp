#pragma once

#include <actors/control/snapshot_sets.hpp>
#include <ftrt/error.hpp>
#include <functional>
#include <optional>
#include <vector>

namespace ftrt::actors {

// A set that will not become a checkpoint, and why: aborted where a newer one was better.
struct dropped_set {
  snapshot_set set;
  error why;
  bool waited = false;  // for a slot; else it was too late when it was first looked at
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
  void serve(decision& made, bool waited);

  holder hold_;
  std::optional<snapshot_set> waiting_;
};

}  // namespace ftrt::actors
