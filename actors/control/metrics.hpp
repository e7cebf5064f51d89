#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/context.hpp>

namespace ftrt::actors {

// The metrics actor: drains the ranks' progress rings ten times a second into the board (progress
// line, summary), the series (TensorBoard, on the storage thread) and the event log (evaluations).
// It reads what the others write and is waited for by nobody; one that is restarted begins at the
// rings' oldest records, of which the board takes only what is news.
[[nodiscard]] metrics_actor spawn_metrics(caf::actor_system& system, const run_context& context);

}  // namespace ftrt::actors
