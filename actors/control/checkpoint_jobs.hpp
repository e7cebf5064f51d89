#pragma once

#include <actors/control/context.hpp>
#include <actors/host/worker_entry.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <optional>
#include <vector>

// What the storage thread does for checkpoints. Each function posts one job and returns at once.
namespace ftrt::actors {

// Where one part of a snapshot lies.
struct snapshot_part {
  std::shared_ptr<const host::worker_entry> worker;
  std::uint32_t slot = 0;
};

// All parts of one iteration's snapshot.
struct snapshot_set {
  generation_id generation;
  branch_id branch;
  iteration_id iteration;
  std::vector<snapshot_part> parts;  // by part number
};

// Makes it durable, verifies it, adds it to the catalog, prunes older ones (in this order), and
// answers the checkpoint actor with checkpoint_settled. A snapshot that was overwritten meanwhile
// is not an error but a checkpoint less: settled as not committed, with the reason.
void post_persist(const run_context& context, snapshot_set set);

// Looks the newest usable checkpoint of the lineage up, verifying each until one is good; bad ones
// are quarantined. Answers the run_supervisor with recovery::checkpoint_found. `quarantine`: this
// one failed elsewhere and is set aside first.
void post_find_newest(const run_context& context, std::optional<iteration_id> quarantine);

// Answers the checkpoint actor with checkpoint_settled where this iteration's checkpoint is in the
// catalog already; says nothing else.
void post_look_for(const run_context& context, iteration_id iteration);

}  // namespace ftrt::actors
