// How a run is judged at its end: faults that never happened, and what the scenario expects.

#include <actors/control/chaos_orders.hpp>
#include <actors/control/live_run.hpp>
#include <utility>

namespace ftrt::actors {

// Entries that did nothing, so that nobody takes the run for a proof against them.
void live_run::tell_of_missed_faults(const run_summary& summary) const {
  if (summary.status == "stopped") return;
  for (const auto entry : chaos_.unfired()) {
    context_.record(event::kind::warning, subject_of_entry(entry),
                    "never happened: " + describe(context_.values.chaos[entry]));
  }
  settle_orders(context_);
  for (const auto& order : orders_.all()) {
    context_.record(event::kind::warning, subject_of_entry(order.entry),
                    "ordered, never happened: " + describe(order.what), order.rank);
  }
}

void live_run::judge(run_summary& summary) {
  std::optional<fault_free_outcome> without;
  if (needs_fault_free_run(context_.values, summary)) without = train_without_faults();
  summary.expectations = actors::judge(context_.values, summary, board_.most_lost(), without);
  for (const auto& each : summary.expectations) {
    if (each.met) continue;
    context_.record(event::kind::warning, "expect." + each.name,
                    "expected " + each.expected + ", found " + each.found);
  }
}

// In a place of its own inside the run's folder, of which nothing is left.
fault_free_outcome live_run::train_without_faults() {
  const auto folder = directory_.path() / "fault-free";
  context_.record(event::kind::chaos, "run", "made again without faults, to compare the weights");
  run_options options;
  options.worker_program = worker_program_;
  auto started = run::start(fault_free(context_.values, folder), options);
  if (!started) {
    const auto& why = started.error();
    return {{}, why.failed ? why.failed->describe() : "it was refused"};
  }
  run* reference = started->get();
  {
    const std::lock_guard lock{mutex_};
    reference_ = std::move(*started);
    if (stopping_) reference_->stop_now();
  }
  const auto summary = reference->wait();
  end_reference();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  const bool whole = summary.status == "completed";
  return {whole ? summary.weights_digest : std::string{},
          whole ? std::string{} : "it " + summary.status + " " + summary.error};
}

void live_run::end_reference() {
  std::unique_ptr<run> ended;
  const std::lock_guard lock{mutex_};
  ended = std::move(reference_);
}

// Whoever stops the run does not wait for the comparison.
void live_run::stop_reference() {
  const std::lock_guard lock{mutex_};
  stopping_ = true;
  if (reference_) reference_->stop_now();
}

void live_run::request_stop(const std::string& reason) {
  stop_reference();
  board_.request_stop(reason);
  context_.post<run_supervisor_actor>(stop_run{reason});
}

void live_run::stop_now() {
  stop_reference();
  set_end({recovery::run_outcome::stopped, "stopped at once, without a final checkpoint", {}});
}

}  // namespace ftrt::actors
