#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/context.hpp>
#include <caf/fwd.hpp>
#include <schemas/unique_fd.hpp>

namespace ftrt::actors {

// What trainers need of their actor system: sockets, and to be asked after each read whether there
// is to be another. (By itself CAF reads fifty times in a row, whatever a broker says meanwhile.)
void configure_for_trainers(caf::actor_system_config& config);

// Spawns the trainer of a worker: a broker that owns `control_socket` and translates. It forwards
// snapshot_ready to the checkpoint actor and everything else to the run_supervisor, whoever they
// are at that moment. A worker that breaks the protocol or closes its socket is killed; the trainer
// ends once the process is known dead.
//
// It keeps no state that matters: when it dies, host_supervisor gives the worker a fresh control
// socket over its lifeline and spawns another one, and the step loop does not notice.
[[nodiscard]] trainer_actor spawn_trainer(caf::actor_system& system, const run_context& context,
                                          rank_id rank, incarnation_id incarnation,
                                          unique_fd control_socket);

}  // namespace ftrt::actors
