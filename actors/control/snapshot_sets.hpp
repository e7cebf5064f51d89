#pragma once

#include <actors/control/mailbox_credit.hpp>
#include <actors/host/worker_entry.hpp>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <schemas/state_layout.hpp>
#include <storage/checkpoint.hpp>
#include <storage/shared_memory.hpp>
#include <storage/snapshot.hpp>
#include <vector>

// Snapshots that several ranks wrote, a part each, seen as one. No actor, no clock; whoever calls
// decides on which thread. All that workers wrote is untrusted.
namespace ftrt::actors {

// Where one part of a snapshot lies.
struct snapshot_part {
  std::shared_ptr<const host::worker_entry> worker;
  std::uint32_t slot = 0;
  bool held = false;  // when it was looked at
};

// All parts of one iteration's snapshot.
struct snapshot_set {
  generation_id generation;
  branch_id branch;
  iteration_id iteration;
  std::vector<snapshot_part> parts;  // by part number
};

// The slots of a set, held while they are read, and what they hold.
struct held_set {
  snapshot_set set;  // keeps the memories mapped
  std::vector<storage::held_snapshot> slots;
  std::vector<storage::checkpoint_part> parts;
  mailbox_credit::ticket place;  // among those that may be held
};

// Holds every part, and sees that it is still the one that the set names. Reads headers only: never
// blocks. Aborted: a newer snapshot took its place, or is about to; busy: it is held already, or as
// many others are as may be (storage::max_held_slots).
[[nodiscard]] result<held_set> hold(const state_layout& layout, snapshot_set set);

// Holds sets for the disk, of a whole run: at most as many at a time as one worker has slots for it
// (storage::max_held_slots), whoever wrote them. Each keeps the memories of its workers, dead ones
// too, for as long as a disk may hang. hold(): as above, of one thread at a time; busy: as many are
// held as may be.
class set_holder {
 public:
  [[nodiscard]] result<held_set> hold(const state_layout& layout, snapshot_set set);

 private:
  mailbox_credit places_;
};

// Reads every part. Corrupt: its digest says that it is torn or damaged.
[[nodiscard]] result<void> verify(const held_set& held);

// The complete sets of `parts` parts in these workers' memories, held or not, newest iteration
// first. Only of branch `branch`, and of generations from `since` on: older ones are void.
[[nodiscard]] std::vector<snapshot_set> complete_sets(
    const std::vector<std::shared_ptr<const host::worker_entry>>& workers,
    const state_layout& layout, std::uint32_t parts, branch_id branch, generation_id since);

// The whole state arena of a set in fresh memory, verified part by part. Takes no hold: neither is
// it kept out by one, nor does it cost a worker a slot. Aborted, corrupt: as above.
[[nodiscard]] result<storage::shared_memory> assemble(const state_layout& layout,
                                                      const snapshot_set& set);

}  // namespace ftrt::actors
