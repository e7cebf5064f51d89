#pragma once

#include <actors/control/context.hpp>
#include <actors/control/snapshot_sets.hpp>
#include <ftrt/types.hpp>

// What the storage thread does for checkpoints. Each function posts one job and returns at once.
namespace ftrt::actors {

// Refuses a state that is not finite (C35), makes it durable, verifies it, adds it to the catalog,
// prunes older ones (in this order), and answers the checkpoint actor with checkpoint_settled. A
// snapshot that was overwritten meanwhile is not an error but a checkpoint less: settled as not
// committed, with the reason.
void post_persist(const run_context& context, snapshot_set set);

// Answers the checkpoint actor with checkpoint_settled where this iteration's checkpoint is in the
// catalog already; says nothing else.
void post_look_for(const run_context& context, iteration_id iteration);

}  // namespace ftrt::actors
