#include "tools/ftrt/stop_command.hpp"

#include <ftrt/catalog.hpp>
#include <nlohmann/json.hpp>

#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

using json = nlohmann::ordered_json;
using outcome = stop_report::outcome;

const char* name_of(outcome came_to) {
  switch (came_to) {
    case outcome::not_running:
      return "not_running";
    case outcome::asked:
      return "asked";
    case outcome::ended:
      return "ended";
  }
  return "unknown";
}

std::string to_json_text(const stop_report& report) {
  json saved = nullptr;
  if (report.checkpoint) {
    saved = {{"iteration", report.checkpoint->iteration},
             {"directory", report.checkpoint->directory.string()}};
  }
  const json row{{"run_id", report.run.run_id},         {"outcome", name_of(report.came_to)},
                 {"in_order", report.in_order()},       {"status", report.run.status},
                 {"iterations", report.run.iterations}, {"checkpoint", saved},
                 {"waited_ms", report.waited.count()}};
  return row.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

std::string checkpoint_text(const stop_report& report) {
  if (!report.checkpoint) return "no checkpoint";
  return "checkpoint of iteration " + std::to_string(report.checkpoint->iteration) + " in " +
         report.checkpoint->directory.string();
}

std::string headline(const stop_report& report, bool waits) {
  const auto run = "run " + report.run.run_id;
  const auto ended = report.run.status + " at iteration " + std::to_string(report.run.iterations);
  const auto time = format_milliseconds(static_cast<double>(report.waited.count()));
  switch (report.came_to) {
    case outcome::not_running:
      return run + " is not running: " + ended + "; " + checkpoint_text(report);
    case outcome::asked:
      if (!waits) return run + " was asked to stop (" + report.holder + ")";
      return run + " was asked to stop and has not ended after " + time + " (" + report.holder +
             "); the request stands";
    case outcome::ended:
      return run + ": " + ended + " after " + time + "; " + checkpoint_text(report);
  }
  return run;
}

// Without a name: the one that is running; where none is, the newest, to say how it stands.
result<run_row> run_to_stop(const options& asked) {
  if (!asked.run_id.empty()) return find_run(asked.runs_directory, asked.run_id);
  const auto rows = list_runs(asked.runs_directory);
  if (!rows) return tl::unexpected(rows.error());
  std::string names;
  std::vector<run_row> running;
  for (const auto& row : *rows) {
    if (row.status != "running") continue;
    names += (names.empty() ? "" : ", ") + row.run_id;
    running.push_back(row);
  }
  if (running.empty()) return find_run(asked.runs_directory, "");
  if (running.size() == 1) return running.front();
  return fail(error_code::invalid_argument,
              "several runs are running, say which one to stop: " + names);
}

exit_code code_of(const stop_report& report, bool waits) {
  if (report.came_to == outcome::not_running) return exit_code::refused;
  const bool as_wished = report.in_order() || (!waits && report.came_to == outcome::asked);
  return as_wished ? exit_code::done : exit_code::failed;
}

}  // namespace

exit_code stop(const options& asked, const stopper& stop_it, output& out, output& errors) {
  const auto run = run_to_stop(asked);
  if (!run) return complain(errors, run.error());
  stop_options how;
  how.timeout = asked.timeout;
  if (asked.no_wait) how.timeout = std::chrono::milliseconds{0};
  const auto report = stop_it(run->directory, how);
  if (!report) return complain(errors, report.error());
  const auto code = code_of(*report, !asked.no_wait);
  const auto text = printable(headline(*report, !asked.no_wait)) + '\n';
  if (code != exit_code::done) errors.write("ftrt: " + text);
  if (asked.json) {
    out.write(to_json_text(*report));
  } else if (code == exit_code::done) {
    out.write(text);
  }
  const auto written = check_written(out, errors);
  return code == exit_code::done ? written : code;
}

}  // namespace ftrt::cli
