#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/chaos_schedule.hpp>
#include <actors/control/context.hpp>
#include <actors/control/run_supervisor.hpp>
#include <actors/control/trainer.hpp>
#include <functional>

namespace ftrt::actors {

// The root of a run's actors. It spawns the others and keeps their handles (an actor that nobody
// holds is destroyed), turns started processes into trainers, and restarts whichever actor dies,
// alone:
//
//   trainer         its worker gets a fresh control socket over the lifeline
//   run_supervisor  takes the living workers and their generation over
//   checkpoint      finds unwritten snapshots in the workers' memories
//   metrics, chaos  go on from what board and schedule know
//
// `on_end` is called once, on the actor's thread, with what the run came to; it must not block.
struct host_supervisor_options {
  run_beginning beginning;
  chaos_schedule* chaos = nullptr;
  std::function<void(const recovery::end_run&)> on_end;
  // Tests put trainers there that have no socket.
  trainer_actor (*make_trainer)(caf::actor_system&, const run_context&, rank_id, incarnation_id,
                                unique_fd) = spawn_trainer;
};

[[nodiscard]] host_supervisor_actor spawn_host_supervisor(caf::actor_system& system,
                                                          run_context& context,
                                                          host_supervisor_options options);

}  // namespace ftrt::actors
