#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftrt {

// One return from the loss of one or more ranks.
struct recovery_record {
  std::uint64_t generation = 0;       // the one that training went on in
  std::uint32_t rank = 0;             // the rank that was lost
  std::string actor;                  // the trainer that reported it, "trainer:1"
  std::string cause;                  // "killed by signal 9 (SIGKILL)"
  std::string source;                 // where its state came from: "survivor:0",
                                      // "checkpoint:400", "initial"
  double detected_ms = 0;             // from the fault to the DOWN
  double resumed_ms = 0;              // from the fault to the next committed iteration
  std::uint64_t lost_iterations = 0;  // committed ones that a rollback undid
};

struct actor_restart_record {
  std::string actor;  // "checkpoint", "trainer:0"
  std::string cause;
  double ms = 0;  // from the DOWN to the new actor at work
};

// What a run came to. Written as JSON by `--summary`, kept in the catalog.
struct run_summary {
  std::string run_id;
  std::string status;  // "completed", "stopped", "failed"
  std::uint64_t iterations = 0;
  std::uint64_t optimizer_steps = 0;
  double epochs = 0;
  double train_loss = 0;       // of the last iteration, mean over its samples
  double test_accuracy = 0;    // of the last evaluation, in [0, 1]; NaN: never evaluated
  std::string weights_digest;  // 32 hex digits, empty where the run has no final state
  std::uint32_t world_size = 0;
  std::uint64_t generations = 0;
  std::vector<recovery_record> recoveries;
  std::vector<actor_restart_record> actor_restarts;
  std::uint64_t checkpoints_committed = 0;
  std::uint64_t last_checkpoint_iteration = 0;
  double samples_per_second = 0;  // committed samples over training time
  double goodput = 0;  // committed iterations over those that were executed, redone ones included
  double wall_seconds = 0;
  std::string error;  // why it failed; empty otherwise
};

// One JSON object, keys as documented in docs/summary.md.
[[nodiscard]] std::string to_json(const run_summary& summary);

}  // namespace ftrt
