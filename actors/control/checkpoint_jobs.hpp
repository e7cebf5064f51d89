#pragma once

#include <actors/control/context.hpp>
#include <actors/control/snapshot_sets.hpp>
#include <ftrt/types.hpp>
#include <memory>

// What the storage thread does for checkpoints. Each function posts one job and returns at once.
namespace ftrt::actors {

// Verifies the set's digests, refuses a state that is not finite (C35), makes it durable, verifies
// it, adds it to the catalog, prunes older ones (in this order), and answers the checkpoint actor
// with checkpoint_settled. The slots are released before the answer. One of history that was found
// void meanwhile is not written, which is an event and no failure.
void post_persist(const run_context& context, std::shared_ptr<held_set> held);

// Answers the checkpoint actor with checkpoint_settled where this iteration's checkpoint is in the
// catalog already; says nothing else.
void post_look_for(const run_context& context, iteration_id iteration);

}  // namespace ftrt::actors
