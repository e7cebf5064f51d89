#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/chaos_schedule.hpp>
#include <actors/control/context.hpp>

namespace ftrt::actors {

// The chaos actor: looks at the committed iteration once a millisecond and carries out the faults
// that `schedule` says are due: signals to workers and the zygote through the host table, to this
// process itself, kill of actors through CAF, jumps through the clock's seam; what a worker does to
// itself by an order (context.orders), which is sent ahead of its iteration. Each is in the event
// log before it is caused. Call before there are workers: the first orders are given here.
[[nodiscard]] chaos_actor spawn_chaos(caf::actor_system& system, const run_context& context,
                                      chaos_schedule& schedule);

}  // namespace ftrt::actors
