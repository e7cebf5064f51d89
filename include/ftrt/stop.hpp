#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <ftrt/catalog.hpp>
#include <ftrt/error.hpp>
#include <optional>
#include <string>

namespace ftrt {

struct stop_options {
  // For the run's events; empty: who asked ("asked by pid 12 on host").
  std::string reason;
  // How long to wait for the run's end; 0: ask and leave. Empty: what the run's scenario allows
  // (supervision.stop_timeout and grace_period) and ten seconds more.
  std::optional<std::chrono::milliseconds> timeout;
};

struct stop_report {
  enum class outcome : std::uint8_t {
    not_running,  // nobody was there to be asked: `run` says how it ended
    asked,        // it was asked, and had not ended yet when the time was over
    ended,        // it has ended: `run.status` says how
  };
  outcome came_to = outcome::not_running;
  run_row run;         // as the catalog has it now
  std::string holder;  // who was asked: "pid 12 on host since ..."
  // The newest one that a resumed run would begin from.
  std::optional<checkpoint_row> checkpoint;
  std::chrono::milliseconds waited{0};

  // The run is over and nothing of it is lost: it was stopped, or was complete before that, and its
  // last iteration is in a checkpoint.
  [[nodiscard]] bool in_order() const;
};

// Asks whoever holds a run, another process or this one, to stop it: what run::request_stop() does,
// from outside. All ranks agree on a last iteration and a checkpoint of it is committed.
//
//   const auto row = ftrt::find_run("runs", "");
//   const auto report = ftrt::stop_run(row->directory);
//   if (report && report->in_order()) ...
//
// No process is signalled, so a service that embeds the run is in no danger: the request is a file
// in the run's folder that only the present holder obeys (docs/adr/0006). Blocks up to the timeout.
// Any thread. Errors: not_found: no run there; refused, io, no_space: it could not be asked.
[[nodiscard]] result<stop_report> stop_run(const std::filesystem::path& run_directory,
                                           const stop_options& options = {});

}  // namespace ftrt
