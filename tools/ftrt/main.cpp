// The `ftrt` command: the installed face (include/ftrt) behind a command line.

#include <ftrt/catalog.hpp>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <ftrt/stop.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <string>

#include "tools/ftrt/catalog_commands.hpp"
#include "tools/ftrt/check_command.hpp"
#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/guard.hpp"
#include "tools/ftrt/options.hpp"
#include "tools/ftrt/postmortem_command.hpp"
#include "tools/ftrt/status_command.hpp"
#include "tools/ftrt/stop_command.hpp"
#include "tools/ftrt/train_command.hpp"

namespace ftrt::cli {
namespace {

constexpr int stdout_fd = 1;
constexpr int stderr_fd = 2;

std::vector<std::string> overrides_for_training(const options& asked) {
  auto overrides = asked.overrides;
  if (asked.runs_directory_given) {
    const auto folder = std::filesystem::absolute(asked.runs_directory);
    overrides.push_back("run.directory=" + folder.string());
  }
  return overrides;
}

// One training, with what it needs.
struct job {
  const options& asked;
  signals& interrupts;
  output& out;
  output& errors;
};

int start_run(const job& work, const loaded_scenario& loaded, const life& now) {
  const auto start = [&](run_options with) {
    with.process_may_be_killed = static_cast<bool>(now.tell);
    auto started = run::start(loaded.values, with);
    if (!started) locate(started.error().refused, loaded.resolved);
    if (started && now.tell) now.tell((*started)->directory());
    return started;
  };
  return train(work.asked, start, work.interrupts, work.out, work.errors);
}

int resume_run(const job& work, const std::filesystem::path& directory,
               const std::vector<std::string>& overrides, const life& now) {
  if (now.tell) now.tell(directory);
  const auto start = [&](run_options with) {
    with.process_may_be_killed = static_cast<bool>(now.tell);
    return run::resume(directory.parent_path(), directory.filename().string(), overrides, with);
  };
  return train(work.asked, start, work.interrupts, work.out, work.errors);
}

bool kills_this_process(const scenario& values) {
  return std::ranges::any_of(values.chaos, [](const chaos_entry& entry) {
    return entry.kind == chaos_kind::kill_supervisor;
  });
}

int train_scenario(const options& asked, output& out, output& errors) {
  signals interrupts;
  const job work{asked, interrupts, out, errors};
  const auto loaded = load_scenario(asked.scenario, overrides_for_training(asked));
  if (!loaded) return static_cast<int>(complain(errors, loaded.error()));
  if (!kills_this_process(loaded->values)) return start_run(work, *loaded, {});
  const auto live = [&](const life& now) {
    return now.run_directory.empty() ? start_run(work, *loaded, now)
                                     : resume_run(work, now.run_directory, {}, now);
  };
  return guard(live, errors);
}

int resume(const options& asked, output& out, output& errors) {
  signals interrupts;
  const job work{asked, interrupts, out, errors};
  const auto found = find_run(asked.runs_directory, asked.run_id);
  if (!found) return static_cast<int>(complain(errors, found.error()));
  const auto& directory = found->directory;
  // What is wrong with it, the resumption says better.
  const auto loaded = load_scenario(directory / "scenario.toml", asked.overrides);
  if (!loaded || !kills_this_process(loaded->values)) {
    return resume_run(work, directory, asked.overrides, {});
  }
  const auto live = [&](const life& now) {
    const bool first = now.run_directory.empty();  // overrides are kept from then on
    return resume_run(work, directory, first ? asked.overrides : std::vector<std::string>{}, now);
  };
  return guard(live, errors);
}

int perform(const options& asked, output& out, output& errors) {
  switch (asked.what) {
    case command::train:
      return train_scenario(asked, out, errors);
    case command::resume:
      return resume(asked, out, errors);
    case command::stop:
      return static_cast<int>(stop(asked, stop_run, out, errors));
    case command::check:
      return static_cast<int>(check_scenario(asked, check_data, out, errors));
    case command::runs:
      return static_cast<int>(show_runs(asked, out, errors));
    case command::checkpoints:
      return static_cast<int>(show_checkpoints(asked, out, errors));
    case command::events:
      return static_cast<int>(show_events(asked, out, errors));
    case command::status:
      return static_cast<int>(show_status(asked, out, errors));
    case command::postmortem:
      return static_cast<int>(show_postmortem(asked, out, errors));
  }
  return static_cast<int>(exit_code::failed);
}

int run_command(int argument_count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  output out(stdout_fd);
  output errors(stderr_fd);
  const parsed request = parse_options(argument_count, arguments);
  if (!request.go_on) {
    const bool asked_for = request.code == exit_code::done;
    (asked_for ? out : errors).write(request.text);
    return static_cast<int>(asked_for ? check_written(out, errors) : request.code);
  }
  try {
    return perform(request.values, out, errors);
  } catch (const std::exception& thrown) {
    (void)complain(errors, error{error_code::internal, thrown.what(), "in the ftrt command"});
    return static_cast<int>(exit_code::failed);
  }
}

}  // namespace
}  // namespace ftrt::cli

int main(int argument_count, char** arguments) {
  return ftrt::cli::run_command(argument_count, arguments);
}
