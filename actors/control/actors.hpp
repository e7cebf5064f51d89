#pragma once

#include <actors/control/messages.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

// The interface of every actor, one place. Who restarts whom: host_supervisor restarts all others,
// each alone and within a budget; the run's own thread respawns it. Who monitors whom:
// host_supervisor all others, run_supervisor the trainers.
namespace ftrt::actors {

// A rank's trainer: the broker at our end of its worker's control socket. Ends with
// trainer_exit::worker_lost once the worker is known dead, which is how the loss of a rank is
// learnt.
using trainer_actor = caf::typed_actor<
    // Write this message to the worker.
    caf::reacts_to<tell_worker>,
    // The host table: the process is dead.
    caf::reacts_to<worker_exited>,
    // Look again whether a worker that closed its socket is dead by now.
    caf::reacts_to<tick>,
    // Has enough been dealt with of what the worker said, to hear more?
    caf::reacts_to<read_on>>;

}  // namespace ftrt::actors

namespace ftrt::actors {

// A trainer adopted its worker's control socket (host_supervisor to run_supervisor).
struct trainer_ready {
  rank_id rank;
  incarnation_id incarnation;
  trainer_actor trainer;
};

}  // namespace ftrt::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::trainer_ready)

namespace ftrt::actors {

// Decides: carries inputs to the recovery machine and its actions out.
using run_supervisor_actor =
    caf::typed_actor<caf::reacts_to<trainer_ready>,
                     // From trainers: all that workers say but snapshot_ready.
                     caf::reacts_to<worker_message>,
                     // From host_supervisor: no process came of an order.
                     caf::reacts_to<worker_start_failed>,
                     // From host_supervisor: a worker died that had no trainer to tell of it.
                     caf::reacts_to<worker_exited>,
                     // Answer to find_source, from the storage thread.
                     caf::reacts_to<recovery::source_found>,
                     // The awaited checkpoint is durable, or never will be.
                     caf::reacts_to<checkpoint_settled>, caf::reacts_to<stop_run>,
                     // Looks at the progress pages.
                     caf::reacts_to<tick>, caf::reacts_to<deadline_alarm>,
                     caf::reacts_to<backoff_over>>;

// Persists snapshots; the only one that has checkpoints written and pruned.
using checkpoint_actor = caf::typed_actor<
    // From trainers: snapshot_ready.
    caf::reacts_to<worker_message>,
    // Answered to run_supervisor with checkpoint_settled.
    caf::reacts_to<await_checkpoint>,
    // From the storage thread: a job of ours ended.
    caf::reacts_to<checkpoint_settled>, caf::reacts_to<tick>>;

// Reads the progress rings: TensorBoard and the progress line.
using metrics_actor = caf::typed_actor<caf::reacts_to<tick>>;

// Carries out the scenario's faults.
using chaos_actor = caf::typed_actor<caf::reacts_to<chaos_tick>>;

// The root: starts and restarts all others, turns processes into trainers.
using host_supervisor_actor = caf::typed_actor<
    // From the host table.
    caf::reacts_to<worker_started>, caf::reacts_to<worker_start_failed>,
    caf::reacts_to<worker_exited>,
    // A restart that had to wait.
    caf::reacts_to<restart_due>,
    // From run_supervisor: the run is over.
    caf::reacts_to<run_ended>>;

// Why a trainer ended, where it was not killed.
enum class trainer_exit : std::uint8_t {
  worker_lost = 1,
};
[[nodiscard]] caf::error make_error(trainer_exit reason);
[[nodiscard]] bool is_worker_lost(const caf::error& reason);

}  // namespace ftrt::actors
