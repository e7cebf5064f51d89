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
  // Of a set newer than all that are complete? What is not was found by a look, or is void.
  [[nodiscard]] bool is_news(const protocol::snapshot_ready& ready) const {
    return age{ready.generation, ready.iteration} > newest_;
  }
  // This one is known to be complete, too.
  void note(const snapshot_set& complete);
  // A worker may die, or stand still, after it wrote a snapshot and before it said so, and a word
  // may be lost with a trainer. Of the sets that lie whole in memory, oldest first: the newest,
  // where the words were behind at the look before this one, too, and none has come since. (Else
  // one may be on its way.)
  [[nodiscard]] std::optional<snapshot_set> unsaid(std::vector<snapshot_set> whole);
  [[nodiscard]] std::size_t incomplete() const { return sets_.size(); }

 private:
  static constexpr std::size_t max_sets = 4;
  // By generation first: what a rollback left incomplete goes before what is newer, though its
  // iterations are higher.
  using key = std::tuple<generation_id, branch_id, iteration_id>;
  std::map<key, snapshot_set> sets_;
  using age = std::pair<generation_id, iteration_id>;
  age newest_;  // of those that are complete
  age at_last_look_;
  bool behind_ = false;  // something newer was whole at the last look
};

// The checkpoint actor: turns complete snapshots into jobs of the storage thread, each with its
// slots held. A run's last snapshot waits until the run_supervisor asks for it, which it does once
// all ranks ended with the same state. Snapshots that nobody told of, as the actor before this one
// or the worker died, are found in the workers' memories.
[[nodiscard]] checkpoint_actor spawn_checkpoint(caf::actor_system& system,
                                                const run_context& context);

}  // namespace ftrt::actors
