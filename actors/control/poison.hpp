#pragma once

#include <actors/control/context.hpp>
#include <actors/recovery/events.hpp>
#include <storage/catalog.hpp>
#include <vector>

namespace ftrt::actors {

// Has the storage thread keep what it takes to reproduce a poisoned batch, in the run's folder
// (storage/poison_bundle). Returns at once.
void post_poison_bundle(const run_context& context, const recovery::report_poison& what);

// The windows that a run leaves out, ascending, from its events: nothing else says so, and a run
// whose catalog is lost finds them again at the price of their deaths.
[[nodiscard]] result<std::vector<iteration_id>> windows_left_out(storage::catalog& catalog);

}  // namespace ftrt::actors
