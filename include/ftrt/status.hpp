#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/catalog.hpp>
#include <ftrt/error.hpp>
#include <limits>
#include <string>
#include <vector>

namespace ftrt {

struct rank_status {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  std::int32_t pid = 0;  // 0: not started yet
  bool alive = false;
  std::string phase;  // of its training thread; see docs/forensics.md
  std::uint64_t iteration = 0;
  std::uint64_t committed = 0;
  double quiet_ms = 0;    // since its last progress
  double compute_ms = 0;  // median of its forward and backward of late; 0: not known
};

// A rank that computes much slower than the others.
struct straggler_status {
  std::uint32_t rank = 0;
  double compute_ms = 0;              // of an iteration
  double others_ms = 0;               // what an equal share took the others
  std::uint64_t since_iteration = 0;  //
  bool replaced = false;              // a new process did not help, so it is only reported
};

// Where a run stands, or how it ended.
struct run_status {
  run_row run;                  // as the catalog has it
  std::string holder;           // "pid 12 on host since ..."; empty: no process is at work on it
  bool told = false;            // what follows was told by the run itself ...
  double age_seconds = 0;       // ... so long ago
  std::int64_t written_ms = 0;  // Unix time

  std::string phase;  // of the supervisor: "starting", "training", "gathering", ..., "ended"
  std::uint64_t generation = 0;
  std::uint32_t branch = 0;
  std::uint64_t iteration = 0;
  std::uint64_t total_iterations = 0;
  double epoch = 0;
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  double test_accuracy = std::numeric_limits<double>::quiet_NaN();  // NaN: none yet
  double samples_per_second = 0;
  double eta_seconds = 0;
  std::uint64_t last_checkpoint_iteration = 0;  // 0: none yet
  std::uint64_t recoveries = 0;
  std::uint64_t actor_restarts = 0;
  std::string stop_reason;  // a stop was asked for
  std::string error;        // why it failed
  std::vector<rank_status> ranks;
  std::vector<std::int32_t> spares;  // pids of those that are warm
  std::vector<straggler_status> stragglers;
};

// Reads what a run, in whatever process, says of itself about once a second: a small file in its
// folder (docs/forensics.md). A run that was killed has said its last words: `run.status` is
// "interrupted", and their age tells since when, about. Any thread; safe beside a living run.
// not_found: no run there.
[[nodiscard]] result<run_status> read_status(const std::filesystem::path& run_directory);

[[nodiscard]] std::string to_json(const run_status& status);

}  // namespace ftrt
