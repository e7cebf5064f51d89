#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/event.hpp>
#include <string>
#include <vector>

namespace ftrt {

// Read-only views of what runs left behind; see docs/catalog.md for the tables under them. Every
// call opens the catalog for itself, so it is safe beside a living run.

struct run_row {
  std::string run_id;
  std::string name;
  std::string status;           // "running", "completed", "stopped", "failed", "interrupted"
  std::int64_t started_ms = 0;  // Unix time
  std::int64_t ended_ms = 0;    // 0: not yet
  std::uint64_t iterations = 0;
  std::uint64_t generations = 0;
  std::uint64_t checkpoints = 0;
  std::filesystem::path directory;
};

struct checkpoint_row {
  std::uint64_t iteration = 0;
  std::uint32_t branch = 0;
  std::uint64_t generation = 0;
  std::string state;  // "verified", "committed", "quarantined", "superseded" (behind a rollback)
  std::uint64_t bytes = 0;
  std::uint32_t shards = 0;
  std::int64_t committed_ms = 0;  // Unix time
  std::filesystem::path directory;
};

// Runs under `runs_directory`, oldest first. A folder that is no run is skipped; a damaged one is
// listed with status "damaged".
[[nodiscard]] result<std::vector<run_row>> list_runs(const std::filesystem::path& runs_directory);

// `run_id` empty: the newest run. A unique prefix of an id is enough; so is the path of a run's
// directory, whatever `runs_directory` is.
[[nodiscard]] result<run_row> find_run(const std::filesystem::path& runs_directory,
                                       const std::string& run_id);
[[nodiscard]] result<std::vector<checkpoint_row>> list_checkpoints(
    const std::filesystem::path& run_directory);
[[nodiscard]] result<std::vector<event>> list_events(const std::filesystem::path& run_directory);

}  // namespace ftrt
