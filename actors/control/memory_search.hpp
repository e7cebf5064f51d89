#pragma once

#include <actors/control/context.hpp>
#include <actors/control/snapshot_sets.hpp>
#include <actors/host/state_shelf.hpp>
#include <actors/recovery/events.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ftrt::actors {

// Why a state is none to come back to, whatever its digest says; empty: nothing is held against it.
[[nodiscard]] std::string refusal(const recovery::find_source& what, recovery::rung::kind from,
                                  iteration_id iteration);

// The rungs of the ladder that lie in memory: snapshots of ranks alive or dead, and the shelf. Asks
// neither disk nor catalog, but reads whole states: a thread that may take its time. One thread at
// a time.
class memory_search {
 public:
  memory_search(const run_context& context, const recovery::find_source& what);

  // The newest good one of iteration `least` or later, which then lies whole on the host table's
  // shelf. Each candidate is verified by its digest and looked through for what is not finite
  // (C35); one that fails, or is past `what.not_beyond`, is set aside with an event and not tried
  // again by this search. None either where nobody waits for it any more: a newer generation was
  // made, or the run ends.
  [[nodiscard]] std::optional<recovery::rung> newest(iteration_id least);

 private:
  [[nodiscard]] const state_layout& layout() const;
  [[nodiscard]] std::string not_finite(const storage::shared_memory& memory) const;
  [[nodiscard]] bool is_wanted() const;
  [[nodiscard]] bool take_set();
  [[nodiscard]] bool take_from_shelf();
  [[nodiscard]] bool assembled(const snapshot_set& set);
  [[nodiscard]] bool still_good(const host::shelved_state& shelved);
  void set_aside(iteration_id iteration, const std::string& why);

  const run_context& context_;
  recovery::find_source what_;
  std::vector<snapshot_set> sets_;                     // newest first
  std::vector<host::state_shelf::state_ptr> shelved_;  // likewise
};

}  // namespace ftrt::actors
