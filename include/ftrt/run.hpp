#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/event.hpp>
#include <ftrt/scenario.hpp>
#include <ftrt/summary.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ftrt {

// A moment of a run, for a progress line.
struct progress {
  std::uint64_t iteration = 0;
  std::uint64_t total_iterations = 0;
  double epoch = 0;
  double train_loss = 0;
  double test_accuracy = 0;  // NaN before the first evaluation
  double samples_per_second = 0;
  double eta_seconds = 0;
  std::uint64_t generation = 0;
  std::uint32_t ranks_alive = 0;
  std::uint32_t world_size = 0;
};

struct run_options {
  // The worker program; empty: `ftrt-worker` beside the running executable, else in PATH.
  std::filesystem::path worker_program;
  // Called for every event and a few times a second with progress, from a thread of the runtime,
  // one call at a time. Must return soon and must not throw.
  std::function<void(const event&)> on_event;
  std::function<void(const progress&)> on_progress;
  // The chaos kind kill_supervisor ends this very process with SIGKILL. A scenario that has it is
  // refused unless the program says that somebody is there to resume the run.
  bool process_may_be_killed = false;
};

// Why a run did not start: the scenario or its data was refused (diagnostics), or the world failed.
// `nothing_begun`: the place does not allow it (a runs directory that cannot be written, or is
// full; a run that another process holds), which was found before anything was begun or left
// behind.
struct start_error {
  std::vector<diagnostic> refused;
  std::optional<error> failed;
  bool nothing_begun = false;
};

// A training run under supervision: starts its workers, brings lost ones back, keeps checkpoints.
//
//   auto loaded = ftrt::load_scenario("scenarios/mnist.toml");
//   auto run = ftrt::run::start(loaded->values, {});
//   ftrt::run_summary summary = (*run)->wait();
//
// One object a run; several runs in one process are allowed. All methods may be called from any
// thread. Installs no signal handler, changes no process-wide setting, and a crash of a worker is
// an event, never a crash of the host. The destructor stops the run at once and leaves no process.
class run {
 public:
  // Validates the data, creates the run directory, starts the workers. Blocks until the worker
  // program has accepted the scenario (about half a second), not until training begins.
  [[nodiscard]] static tl::expected<std::unique_ptr<run>, start_error> start(
      const scenario& values, const run_options& options);

  // Takes a run of `runs_directory` up where its newest verified checkpoint left it. `run_id`
  // empty: the newest run. Overrides are as for load_scenario(). Where it has checkpoints on record
  // and none of them can be loaded, each is refused with what is wrong with it: nothing of the run
  // is changed, and to begin anew is start()'s.
  [[nodiscard]] static tl::expected<std::unique_ptr<run>, start_error> resume(
      const std::filesystem::path& runs_directory, const std::string& run_id,
      const std::vector<std::string>& overrides, const run_options& options);

  virtual ~run() = default;
  run(const run&) = delete;
  run& operator=(const run&) = delete;

  [[nodiscard]] virtual const std::string& id() const = 0;
  [[nodiscard]] virtual const std::filesystem::path& directory() const = 0;

  // All ranks agree on one last iteration, a checkpoint is committed, wait() returns "stopped".
  // Returns at once; a second call changes nothing.
  virtual void request_stop(const std::string& reason) = 0;
  // Kills the workers and ends; what was committed stays. wait() returns "stopped".
  virtual void stop_now() = 0;

  // Blocks until the run has ended and no process of it is left.
  [[nodiscard]] virtual run_summary wait() = 0;
  // The same, but gives up after `timeout`.
  [[nodiscard]] virtual std::optional<run_summary> wait_for(std::chrono::milliseconds timeout) = 0;

 protected:
  run() = default;
};

// Has the worker program check the scenario and its data without starting a run.
[[nodiscard]] tl::expected<void, start_error> check_data(const scenario& values,
                                                         const run_options& options);

}  // namespace ftrt
