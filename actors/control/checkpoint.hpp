#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/checkpoint_jobs.hpp>
#include <actors/control/checkpoint_line.hpp>
#include <actors/control/context.hpp>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ftrt::actors {

// Collects the parts of each iteration's snapshot. Pure: no actor, no clock.
//
// A set is complete once every part of one (generation, branch, iteration) is known. Only the
// newest few incomplete sets are kept: a part whose rank died never comes, and its set is void.
class snapshot_collector {
 public:
  // The set that this part completes.
  [[nodiscard]] std::optional<snapshot_set> add(const protocol::snapshot_ready& ready,
                                                snapshot_part part);
  [[nodiscard]] std::size_t incomplete() const { return sets_.size(); }

 private:
  static constexpr std::size_t max_sets = 4;
  // By generation first: what a rollback left incomplete goes before what is newer, though its
  // iterations are higher.
  using key = std::tuple<generation_id, branch_id, iteration_id>;
  std::map<key, snapshot_set> sets_;
};

// The checkpoint actor: turns complete snapshots into jobs of the storage thread, each with its
// slots held. A run's last snapshot waits until the run_supervisor asks for it, which it does once
// all ranks ended with the same state. When the actor is restarted it finds the snapshots that
// nobody has written yet in the workers' memories.
[[nodiscard]] checkpoint_actor spawn_checkpoint(caf::actor_system& system,
                                                const run_context& context);

}  // namespace ftrt::actors
