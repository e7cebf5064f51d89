#include <sys/resource.h>

#include <actors/control/chaos_rules.hpp>
#include <actors/control/live_run.hpp>
#include <actors/control/poison.hpp>
#include <actors/control/resume_rules.hpp>
#include <actors/host/zygote_process.hpp>
#include <ftrt/catalog.hpp>
#include <ftrt/run.hpp>
#include <iterator>
#include <span>
#include <storage/catalog.hpp>
#include <storage/event_log.hpp>
#include <storage/file_ops.hpp>
#include <utility>

namespace ftrt {
namespace {

tl::unexpected<start_error> failed(error why) {
  return tl::unexpected(start_error{{}, std::move(why)});
}

// As things stand; whoever asks can mend it, and nothing was left behind.
tl::unexpected<start_error> not_allowed(error why) {
  return tl::unexpected(start_error{{}, std::move(why), true});
}

tl::unexpected<start_error> refused(std::vector<diagnostic> faults) {
  return tl::unexpected(start_error{std::move(faults), std::nullopt});
}

host::host_config config_of(const scenario& values, std::filesystem::path worker_program) {
  host::host_config config;
  config.worker_program = std::move(worker_program);
  config.scenario_toml = to_toml(values);
  config.ranks = values.cluster.ranks;
  config.start_timeout = values.supervision.start_timeout;
  config.grace_period = values.supervision.grace_period;
  config.spares = values.supervision.spares;
  return config;
}

// The actor system ends the process when it cannot open its own descriptors, so that they are
// counted before it may (C03). Each rank and its successor need a dozen.
result<void> enough_descriptors(std::uint32_t ranks) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::error_code unreadable;
  const auto listing = std::filesystem::directory_iterator{"/proc/self/fd", unreadable};
  const auto open = static_cast<std::uint64_t>(std::distance(begin(listing), end(listing)));
  const auto needed = open + 48 + std::uint64_t{24} * ranks;
  if (!unreadable && needed <= limit.rlim_cur) return {};
  return fail(error_code::no_space, "file descriptors: expected room for " +
                                        std::to_string(needed) + ", found a limit of " +
                                        std::to_string(limit.rlim_cur) + "; raise `ulimit -n`");
}

tl::expected<std::unique_ptr<host::host_table>, start_error> start_host(
    const scenario& values, const run_options& options) {
  if (auto enough = enough_descriptors(values.cluster.ranks); !enough) {
    return not_allowed(std::move(enough.error()));
  }
  auto program = host::find_worker_program(options.worker_program);
  if (!program) return not_allowed(std::move(program.error()));
  return host::host_table::start(config_of(values, std::move(*program)));
}

// Three checkpoints besides the one being written, and room for the rest.
std::uint64_t bytes_needed(const scenario& values, const protocol::zygote_ready& program) {
  constexpr std::uint64_t rest = 16u << 20;
  return rest + program.layout.arena_bytes * (values.checkpoint.keep_last + 1);
}

result<recovery::begin> beginning_on_record(storage::catalog& catalog, std::uint32_t world_size) {
  const auto generation = catalog.last_generation();
  if (!generation) return tl::unexpected(generation.error());
  const auto branch = catalog.current_branch();
  if (!branch) return tl::unexpected(branch.error());
  const auto committed = catalog.last_committed();
  if (!committed) return tl::unexpected(committed.error());
  auto incarnations = catalog.newest_incarnations(world_size);
  if (!incarnations) return tl::unexpected(incarnations.error());
  auto left_out = actors::windows_left_out(catalog);
  if (!left_out) return tl::unexpected(left_out.error());
  return recovery::begin{*generation, *branch, *committed, std::move(*incarnations),
                         std::move(*left_out)};
}

// What is on record must be of the model that would go on: otherwise no checkpoint would load, each
// would be set aside as damaged, and training would begin anew over good data.
result<void> check_same_state(storage::catalog& catalog, const std::string& run_id,
                              const state_layout& layout) {
  const auto usable = catalog.usable_checkpoints();
  if (!usable) return tl::unexpected(usable.error());
  if (usable->empty() || usable->front().manifest.layout == layout) return {};
  return fail(error_code::refused, "the checkpoints of run '" + run_id +
                                       "' are of another model or optimizer than the scenario "
                                       "asks for; resume it without overriding them, or start a "
                                       "new run");
}

// Where there were checkpoints and none can be loaded, to go on would be to begin anew over what
// people may still want to save: that is for them to say.
result<std::vector<diagnostic>> faults_of_history(storage::catalog& catalog,
                                                  const std::filesystem::path& scenario_file) {
  const auto lost = catalog.all_lost();
  if (!lost) return tl::unexpected(lost.error());
  std::vector<diagnostic> faults;
  for (const auto& checkpoint : *lost) {
    faults.push_back({checkpoint.directory.string(), 0,
                      "checkpoint " + std::to_string(checkpoint.iteration.value()) + " of branch " +
                          std::to_string(checkpoint.branch.value()),
                      "one that can be loaded", checkpoint.why, ""});
  }
  if (!faults.empty()) {
    faults.back().hint =
        "no checkpoint of this run can be loaded: put one back and resume, or "
        "start anew with `ftrt --scenario " +
        scenario_file.string() + "`";
  }
  return faults;
}

checked<scenario> scenario_to_resume(const std::filesystem::path& file,
                                     const std::vector<std::string>& overrides) {
  const auto recorded = load_scenario(file);
  if (!recorded) return tl::unexpected(recorded.error());
  auto asked = load_scenario(file, overrides);
  if (!asked) return tl::unexpected(std::move(asked.error()));
  auto changed = actors::changes_of_fixed_values(*recorded, *asked, file);
  if (!changed.empty()) return tl::unexpected(std::move(changed));
  return std::move(asked->values);
}

// The run is from now on what was asked for: whoever resumes it next, or waits for its end, reads
// that.
result<void> keep_overrides(const std::filesystem::path& scenario_file, const scenario& values,
                            const std::vector<std::string>& overrides) {
  if (overrides.empty()) return {};
  const auto toml = to_toml(values);
  return storage::publish_file(storage::system_files(), scenario_file,
                               std::as_bytes(std::span{toml}));
}

// What a resumed run has behind it, for its faults. A log that cannot be read is no reason to lose
// the training.
std::vector<event> past_of(const storage::run_directory& directory,
                           std::vector<std::string>& notes) {
  auto log = storage::read_event_log(directory.events_file());
  if (log) return std::move(log->events);
  notes.push_back("the event log cannot be read, so that faults may happen again: " +
                  log.error().describe());
  return {};
}

start_error refusal(const std::filesystem::path& scenario_file, error why) {
  if (why.code != error_code::refused) return {{}, std::move(why)};
  return {{diagnostic{scenario_file.string(), 0, "model", "the model of the run's checkpoints",
                      "another one", std::move(why.message)}},
          std::nullopt};
}

}  // namespace

tl::expected<std::unique_ptr<run>, start_error> run::start(const scenario& values,
                                                           const run_options& options) {
  // A service may have filled the scenario in by hand.
  if (auto faults = check_scenario(values); !faults.empty()) {
    return refused(std::move(faults));
  }
  if (auto faults = actors::unwelcome_kinds(values, options, {}); !faults.empty()) {
    return refused(std::move(faults));
  }
  auto host = start_host(values, options);
  if (!host) return tl::unexpected(std::move(host.error()));
  if (auto faults = actors::faults_after_the_end(values, (*host)->program().total_iterations, {});
      !faults.empty()) {
    return refused(std::move(faults));
  }
  auto directory =
      storage::run_directory::create(values.run.directory, values.run.name, to_toml(values),
                                     bytes_needed(values, (*host)->program()));
  if (!directory) return not_allowed(std::move(directory.error()));
  std::vector<std::string> notes;
  auto catalog = storage::catalog::open(directory->path(), directory->id(), notes);
  if (!catalog) return failed(std::move(catalog.error()));
  return actors::live_run::begin(
      {values, std::move(*host), std::move(*directory), std::move(*catalog), std::move(notes), {}},
      options);
}

tl::expected<std::unique_ptr<run>, start_error> run::resume(
    const std::filesystem::path& runs_directory, const std::string& run_id,
    const std::vector<std::string>& overrides, const run_options& options) {
  auto row = find_run(runs_directory, run_id);
  if (!row) return not_allowed(std::move(row.error()));
  auto directory = storage::run_directory::open(row->directory);
  if (!directory) return not_allowed(std::move(directory.error()));
  const auto file = directory->scenario_file();
  auto values = scenario_to_resume(file, overrides);
  if (!values) return refused(std::move(values.error()));
  if (auto unwelcome = actors::unwelcome_kinds(*values, options, file); !unwelcome.empty()) {
    return refused(std::move(unwelcome));
  }
  std::vector<std::string> notes;
  auto catalog = storage::catalog::open(directory->path(), directory->id(), notes);
  if (!catalog) return failed(std::move(catalog.error()));
  auto past = past_of(*directory, notes);
  if (auto taken = catalog->take_in(past); !taken) return failed(std::move(taken.error()));
  auto beginning = beginning_on_record(*catalog, values->cluster.ranks);
  if (!beginning) return failed(std::move(beginning.error()));
  auto faults = faults_of_history(*catalog, file);
  if (!faults) return failed(std::move(faults.error()));
  if (!faults->empty()) return refused(std::move(*faults));
  auto host = start_host(*values, options);
  if (!host) return tl::unexpected(std::move(host.error()));
  if (auto same = check_same_state(*catalog, directory->id(), (*host)->program().layout); !same) {
    return tl::unexpected(refusal(file, std::move(same.error())));
  }
  if (auto passed = actors::end_already_passed(beginning->last_committed.value(),
                                               (*host)->program().total_iterations, file);
      !passed.empty()) {
    return refused(std::move(passed));
  }
  if (auto late = actors::faults_after_the_end(*values, (*host)->program().total_iterations, file);
      !late.empty()) {
    return refused(std::move(late));
  }
  if (auto kept = keep_overrides(file, *values, overrides); !kept) {
    return failed(std::move(kept.error()));
  }
  return actors::live_run::begin(
      {*values, std::move(*host), std::move(*directory), std::move(*catalog), std::move(notes),
       std::move(*beginning), std::move(past)},
      options);
}

tl::expected<void, start_error> check_data(const scenario& values, const run_options& options) {
  auto host = start_host(values, options);
  if (!host) return tl::unexpected(std::move(host.error()));
  auto faults = actors::faults_after_the_end(values, (*host)->program().total_iterations, {});
  if (!faults.empty()) return refused(std::move(faults));
  return {};
}

}  // namespace ftrt
