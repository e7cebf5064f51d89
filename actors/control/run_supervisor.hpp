#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/context.hpp>
#include <actors/recovery/machine.hpp>
#include <actors/recovery/progress_watch.hpp>

namespace ftrt::actors {

// How a run_supervisor begins: it starts the run, or takes living workers over from the one before.
using run_beginning = std::variant<recovery::begin, recovery::take_over>;

// The run_supervisor: translates messages into inputs of the recovery machine and its actions into
// messages, and decides nothing itself. It monitors the trainers: their DOWN is how a rank's loss
// is learnt. Its trainers are found in the directory; a new one asks them all who they are.
[[nodiscard]] run_supervisor_actor spawn_run_supervisor(caf::actor_system& system,
                                                        const run_context& context,
                                                        run_beginning beginning);

// The limits of the recovery machine, as the scenario has them.
[[nodiscard]] recovery::policy policy_of(const scenario& values, std::uint64_t total_iterations);
// The same for the watch over progress of ranks with so much state.
[[nodiscard]] recovery::watch_limits watch_limits_of(const scenario& values,
                                                     std::uint64_t state_bytes);

}  // namespace ftrt::actors
