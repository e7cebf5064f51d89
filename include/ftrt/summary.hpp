#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ftrt {

// What the milliseconds of a recovery went into, one stretch after the other.
struct recovery_times {
  double detect_ms = 0;      // from the fault to the DOWN
  double park_ms = 0;        // until the last survivor was out of the collective
  double spawn_ms = 0;       // until every lost rank had a new worker (what parking left of it)
  double join_ms = 0;        // until all had state and communicator, digests compared
  double first_step_ms = 0;  // until the next iteration was committed
  double state_ms = 0;       // the part of join_ms in which the rank copied or loaded its state
};

// One return from the loss of one or more ranks.
struct recovery_record {
  std::uint64_t generation = 0;       // the one that training went on in
  std::uint32_t rank = 0;             // the rank that was lost
  std::string actor;                  // the trainer that reported it, "trainer:1"
  std::string cause;                  // "killed by signal 9 (SIGKILL)"
  std::string source;                 // where its state came from: "survivor:0",
                                      // "snapshot:400", "checkpoint:400", "initial"
  double detected_ms = 0;             // from the fault to the DOWN
  double resumed_ms = 0;              // from the fault to the next committed iteration
  std::uint64_t lost_iterations = 0;  // committed ones that a rollback undid
  recovery_times times = {};          // what resumed_ms went into
  std::string replacement = {};       // where its new process came from: "spare", "fork"
};

struct actor_restart_record {
  std::string actor;  // "checkpoint", "trainer:0"
  std::string cause;
  double ms = 0;  // from the DOWN to the new actor at work
};

// What a scenario's [expect] asked for, and what came of it.
struct expectation {
  std::string name;      // "max_lost_iterations"
  std::string expected;  // "at most 100"
  std::string found;     // "134"
  bool met = false;
};

// A figure that was never measured.
inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

// What a run came to. Written as JSON by `--summary`, kept in the catalog.
struct run_summary {
  std::string run_id;
  std::string status;  // "completed", "stopped", "failed"
  std::uint64_t iterations = 0;
  std::uint64_t optimizer_steps = 0;
  double epochs = 0;
  double train_loss = not_measured;     // of the last iteration, mean over its samples
  double test_accuracy = not_measured;  // of the last evaluation, in [0, 1]
  std::string weights_digest;           // 32 hex digits, empty where the run has no final state
  std::uint32_t world_size = 0;
  std::uint64_t generations = 0;
  std::vector<recovery_record> recoveries;
  std::vector<actor_restart_record> actor_restarts;
  std::vector<std::uint64_t> left_out;  // iterations whose batch was skipped as poisoned
  std::uint64_t checkpoints_committed = 0;
  std::uint64_t last_checkpoint_iteration = 0;
  double samples_per_second = not_measured;  // committed samples over training time
  // Committed iterations over those that were executed, redone ones included.
  double goodput = not_measured;
  double wall_seconds = not_measured;
  std::string error;                      // why it failed; empty otherwise
  std::vector<expectation> expectations;  // empty: the scenario expects nothing
};

// One JSON object, keys as documented in docs/summary.md.
[[nodiscard]] std::string to_json(const run_summary& summary);

}  // namespace ftrt
