#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/chaos_schedule.hpp>
#include <actors/control/context.hpp>

namespace ftrt::actors {

// The chaos actor: looks at the committed iteration once a millisecond and carries out the faults
// that `schedule` says are due: SIGKILL of workers through the host table, kill of actors through
// CAF, wrong numbers by an order to the worker, which is sent ahead of its iteration.
[[nodiscard]] chaos_actor spawn_chaos(caf::actor_system& system, const run_context& context,
                                      chaos_schedule& schedule);

}  // namespace ftrt::actors
