#pragma once

#include <actors/control/context.hpp>
#include <actors/recovery/events.hpp>

// The ladder of state below the survivors: which snapshot or checkpoint all ranks load.
namespace ftrt::actors {

// Posts the search and returns at once; answers the run_supervisor with recovery::source_found.
// Newest first, and of one iteration the snapshot before the checkpoint: each candidate is verified
// by digest, and one that fails or is of an iteration past `what.not_beyond` is set aside with an
// event.
//
// Where no checkpoint can be newer than the snapshot, memory alone answers, on a thread of its own
// that knows no disk: it never waits behind a checkpoint that is being written. Else the storage
// thread goes on with the search. A snapshot that is found lies whole on the host table's shelf,
// from where its joins hand it out. A search that comes so late that a newer generation was made
// touches nothing there.
void post_find_source(const run_context& context, const recovery::find_source& what);

}  // namespace ftrt::actors
