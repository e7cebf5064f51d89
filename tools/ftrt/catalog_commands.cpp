#include "tools/ftrt/catalog_commands.hpp"

#include <ftrt/catalog.hpp>
#include <nlohmann/json.hpp>

#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/table.hpp"
#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

using json = nlohmann::ordered_json;

// A name that is no UTF-8 must not make the whole listing fail.
void print(output& out, const json& rows) {
  out.write(rows.dump(2, ' ', false, json::error_handler_t::replace) + '\n');
}

json to_row(const run_row& run) {
  return {{"run_id", run.run_id},
          {"name", run.name},
          {"status", run.status},
          {"started_ms", run.started_ms},
          {"ended_ms", run.ended_ms},
          {"iterations", run.iterations},
          {"generations", run.generations},
          {"checkpoints", run.checkpoints},
          {"directory", run.directory.string()}};
}

json to_row(const checkpoint_row& saved) {
  return {{"iteration", saved.iteration},
          {"branch", saved.branch},
          {"generation", saved.generation},
          {"state", saved.state},
          {"bytes", saved.bytes},
          {"shards", saved.shards},
          {"committed_ms", saved.committed_ms},
          {"directory", saved.directory.string()}};
}

json to_row(const event& happened) {
  return {{"kind", to_string(happened.what)},
          {"wall_time_ms", happened.wall_time_ms},
          {"generation", happened.generation},
          {"iteration", happened.iteration},
          {"rank", happened.rank < 0 ? json(nullptr) : json(happened.rank)},
          {"subject", happened.subject},
          {"text", happened.text}};
}

template <class Row>
json to_rows(const std::vector<Row>& rows) {
  json array = json::array();
  for (const auto& row : rows) array.push_back(to_row(row));
  return array;
}

std::string runs_table(const std::vector<run_row>& runs) {
  table shown({{"run"},
               {"status"},
               {"started"},
               {"took", align::right},
               {"iterations", align::right},
               {"generations", align::right},
               {"checkpoints", align::right}});
  for (const auto& run : runs) {
    const bool ended = run.started_ms > 0 && run.ended_ms >= run.started_ms;
    const double seconds = static_cast<double>(run.ended_ms - run.started_ms) / 1000;
    shown.add_row({run.run_id, run.status, format_date(run.started_ms),
                   ended ? format_seconds(seconds) : "-", std::to_string(run.iterations),
                   std::to_string(run.generations), std::to_string(run.checkpoints)});
  }
  return shown.render();
}

std::string checkpoints_table(const std::vector<checkpoint_row>& checkpoints) {
  table shown({{"iteration", align::right},
               {"branch", align::right},
               {"generation", align::right},
               {"state"},
               {"size", align::right},
               {"shards", align::right},
               {"committed"},
               {"directory"}});
  for (const auto& saved : checkpoints) {
    shown.add_row({std::to_string(saved.iteration), std::to_string(saved.branch),
                   std::to_string(saved.generation), saved.state, format_bytes(saved.bytes),
                   std::to_string(saved.shards), format_date(saved.committed_ms),
                   saved.directory.string()});
  }
  return shown.render();
}

std::string events_table(const std::vector<event>& events) {
  table shown({{"time"},
               {"event"},
               {"subject"},
               {"rank", align::right},
               {"generation", align::right},
               {"iteration", align::right},
               {"what"}});
  for (const auto& happened : events) {
    shown.add_row({format_date(happened.wall_time_ms), std::string(to_string(happened.what)),
                   happened.subject, happened.rank < 0 ? "-" : std::to_string(happened.rank),
                   std::to_string(happened.generation), std::to_string(happened.iteration),
                   happened.text});
  }
  return shown.render();
}

// Shared by the commands on one run: finds it, reads its rows, prints them.
template <class Row>
exit_code show_of_run(const options& asked, output& out, output& errors,
                      result<std::vector<Row>> (*list)(const std::filesystem::path&),
                      std::string (*to_table)(const std::vector<Row>&)) {
  const auto run = find_run(asked.runs_directory, asked.run_id);
  if (!run) return complain(errors, run.error());
  const auto rows = list(run->directory);
  if (!rows) return complain(errors, rows.error());
  if (asked.json) {
    print(out, to_rows(*rows));
  } else {
    out.write("run " + printable(run->run_id) + " (" + printable(run->status) + ")\n" +
              to_table(*rows));
  }
  return check_written(out, errors);
}

}  // namespace

exit_code show_runs(const options& asked, output& out, output& errors) {
  auto runs = list_runs(asked.runs_directory);
  // Nothing has been run here yet; a folder that was asked for by name must be there, though.
  const bool nothing_yet = !runs && runs.error().code == error_code::not_found;
  if (nothing_yet && !asked.runs_directory_given) runs = std::vector<run_row>{};
  if (!runs) return complain(errors, runs.error());
  if (asked.json) {
    print(out, to_rows(*runs));
  } else if (runs->empty()) {
    out.write("no runs in " + printable(asked.runs_directory.string()) + '\n');
  } else {
    out.write(runs_table(*runs));
  }
  return check_written(out, errors);
}

exit_code show_checkpoints(const options& asked, output& out, output& errors) {
  return show_of_run<checkpoint_row>(asked, out, errors, &list_checkpoints, &checkpoints_table);
}

exit_code show_events(const options& asked, output& out, output& errors) {
  return show_of_run<event>(asked, out, errors, &list_events, &events_table);
}

}  // namespace ftrt::cli
