#include "tools/ftrt/options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>

#ifndef FTRT_VERSION
#error "FTRT_VERSION comes from the build"
#endif

namespace ftrt::cli {
namespace {

constexpr const char* examples = R"(Examples:
  ftrt --scenario scenarios/mnist.toml
  ftrt --scenario scenarios/mnist.toml --set train.epochs=1 --set cluster.ranks=4
  ftrt --scenario scenarios/chaos/kill_rank.toml --summary summary.json
  ftrt check scenarios/mnist.toml      every value, and where it came from
  ftrt runs                            what has been run below ./runs
  ftrt status                          where the newest run stands, rank by rank
  ftrt events                          what happened in it
  ftrt postmortem                      what each rank did when one was lost
  ftrt checkpoints mnist-2026 --json   a unique beginning of a run's name is enough
  ftrt stop                            have the run that is at work commit a checkpoint and end
  ftrt resume                          go on from the newest run's last good checkpoint

Exit codes: 0 done; 1 the run failed; 2 refused before anything began (usage,
scenario, data, a place that cannot be written, a run that is held);
129/130/143 stopped by SIGHUP/SIGINT/SIGTERM, 143 by 'ftrt stop' too (the
first signal commits a checkpoint and stops, the second stops at once).
The keys of a scenario are described in docs/scenario.md.)";

constexpr const char* default_runs = "runs";

void add_run_directory(CLI::App& app, options& values) {
  app.add_option("--runs-directory", values.runs_directory, "Folder that holds the runs (runs)")
      ->type_name("DIR")
      ->each([&values](const std::string&) { values.runs_directory_given = true; });
}

void add_overrides(CLI::App& app, options& values) {
  app.add_option("--set", values.overrides, "Override a value of the scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        const auto equals = text.find('=');
        return equals != std::string::npos && equals > 0
                   ? std::string()
                   : "expected KEY=VALUE as in train.lr=0.05, found '" + text + "'";
      });
}

void add_training(CLI::App& app, options& values) {
  add_overrides(app, values);
  app.add_option("--summary", values.summary, "Write the outcome as JSON; - is standard output")
      ->type_name("FILE");
  app.add_flag("--quiet", values.quiet, "Print nothing but errors");
}

CLI::App* add_command(CLI::App& app, options& values, command what, const std::string& name,
                      const std::string& purpose) {
  CLI::App* sub = app.add_subcommand(name, purpose);
  sub->callback([&values, what] { values.what = what; });
  return sub;
}

CLI::App* add_catalog_command(CLI::App& app, options& values, command what, const std::string& name,
                              const std::string& purpose) {
  CLI::App* sub = add_command(app, values, what, name, purpose);
  if (what != command::runs) {
    sub->add_option("run", values.run_id, "Run, or a unique beginning of it; default: the newest")
        ->type_name("RUN");
  }
  const bool one = what == command::status || what == command::postmortem;
  sub->add_flag("--json", values.json,
                one ? "For programs: one JSON object" : "For programs: one JSON array");
  add_run_directory(*sub, values);
  return sub;
}

// Longer than anybody waits, and far from what a count of milliseconds can hold.
constexpr double longest_wait_seconds = 1e6;

void add_stop(CLI::App& app, options& values) {
  CLI::App* stop = add_command(app, values, command::stop, "stop",
                               "Have a run commit a checkpoint and end, and wait for it");
  stop->add_option("run", values.run_id,
                   "Run, or a unique beginning of it; default: the one that is running")
      ->type_name("RUN");
  const auto timeout = stop->add_option_function<double>(
                               "--timeout",
                               [&values](double seconds) {
                                 values.timeout =
                                     std::chrono::milliseconds{std::llround(seconds * 1000)};
                               },
                               "Seconds to wait; default: what the scenario allows, and ten more")
                           ->type_name("SECONDS")
                           ->check(CLI::Range(0.0, longest_wait_seconds))
                           ->check([](const std::string& text) {  // which NaN passes
                             return text.find_first_not_of("0123456789.eE+") == std::string::npos
                                        ? std::string()
                                        : "expected a number of seconds, found '" + text + "'";
                           });
  stop->add_flag("--no-wait", values.no_wait, "Ask and leave")->excludes(timeout);
  stop->add_flag("--json", values.json, "For programs: one JSON object");
  add_run_directory(*stop, values);
}

void declare(CLI::App& app, options& values) {
  app.set_version_flag("--version", std::string("ftrt ") + FTRT_VERSION);
  app.require_subcommand(0, 1);
  app.add_option("--scenario", values.scenario, "Train what this TOML file describes")
      ->type_name("FILE");
  add_training(app, values);
  add_run_directory(app, values);

  CLI::App* check = add_command(app, values, command::check, "check",
                                "Validate a scenario and its data, show every resolved value");
  check->add_option("scenario", values.scenario, "The TOML file")->type_name("FILE")->required();
  add_overrides(*check, values);
  check->add_flag("--json", values.json, "For programs: one JSON array");

  CLI::App* resume = add_command(app, values, command::resume, "resume",
                                 "Go on from a run's newest verified checkpoint");
  resume->add_option("run", values.run_id, "Run, or a unique beginning of it; default: the newest")
      ->type_name("RUN");
  add_training(*resume, values);
  add_run_directory(*resume, values);

  add_stop(app, values);
  add_catalog_command(app, values, command::runs, "runs", "List the runs");
  add_catalog_command(app, values, command::checkpoints, "checkpoints", "List a run's checkpoints");
  add_catalog_command(app, values, command::status, "status",
                      "Show where a run stands, rank by rank, or how it ended");
  add_catalog_command(app, values, command::events, "events", "List what happened in a run");
  add_catalog_command(app, values, command::postmortem, "postmortem",
                      "Show what each rank did when a generation ended by a loss")
      ->add_option("generation", values.generation, "Default: the newest that ended so")
      ->type_name("GENERATION")
      ->check(CLI::PositiveNumber);
  app.footer(examples);  // last: commands would inherit it
}

std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  text.erase(text.find_last_not_of('\n') + 1);
  return text + '\n';
}

parsed refused(const std::string& complaint) {
  return {false, {}, "ftrt: " + complaint + "\nTry 'ftrt --help'.\n", exit_code::refused};
}

// What CLI11 lets pass but means nothing: options of training in front of another command.
std::string misplaced(const options& values, bool has_command) {
  if (!has_command) {
    return values.scenario.empty() ? "expected --scenario FILE or a command, found neither" : "";
  }
  const bool trains = values.what == command::resume;
  if (values.what != command::check && !values.scenario.empty()) {
    return "--scenario does not go with a command";
  }
  if (!trains && (!values.summary.empty() || values.quiet)) {
    return "--summary and --quiet belong to training and to 'resume'";
  }
  if (!trains && values.what != command::check && !values.overrides.empty()) {
    return "--set belongs to training, 'resume' and 'check'";
  }
  return {};
}

}  // namespace

parsed parse_options(int argument_count, const char* const* arguments) {
  CLI::App app{"ftrt trains PyTorch models on supervised ranks and keeps training when ranks die.",
               "ftrt"};
  options values;
  declare(app, values);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::CallForHelp&) {
    return {false, {}, help_of(app), exit_code::done};
  } catch (const CLI::CallForVersion& version) {
    return {false, {}, std::string(version.what()) + '\n', exit_code::done};
  } catch (const CLI::ParseError& failed) {
    return refused(failed.what());
  }
  const bool has_command = !app.get_subcommands().empty();
  if (const auto complaint = misplaced(values, has_command); !complaint.empty()) {
    return refused(complaint);
  }
  if (values.runs_directory.empty()) values.runs_directory = default_runs;
  return {true, values, {}, exit_code::done};
}

}  // namespace ftrt::cli
