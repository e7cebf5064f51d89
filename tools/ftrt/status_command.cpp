#include "tools/ftrt/status_command.hpp"

#include <algorithm>
#include <cmath>
#include <ftrt/status.hpp>

#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/table.hpp"
#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

std::string progress_text(const run_status& status) {
  std::string text = "iteration " + number(status.iteration);
  if (status.total_iterations > 0) text += " of " + number(status.total_iterations);
  text += ", epoch " + format_number(status.epoch, 3) + ", loss " +
          format_number(status.train_loss, 4) + ", " + format_rate(status.samples_per_second);
  if (std::isfinite(status.test_accuracy)) {
    text += ", test accuracy " + format_percent(status.test_accuracy);
  }
  if (status.eta_seconds > 0) text += ", " + format_seconds(status.eta_seconds) + " to go";
  return text;
}

std::string supervision_text(const run_status& status) {
  std::string text = "generation " + number(status.generation) + ", " + status.phase +
                     "; recoveries " + number(status.recoveries) + ", actors restarted " +
                     number(status.actor_restarts) + ", spares " +
                     std::to_string(status.spares.size());
  text += "; last checkpoint " + (status.last_checkpoint_iteration > 0
                                      ? "of iteration " + number(status.last_checkpoint_iteration)
                                      : std::string{"none"});
  return text;
}

std::string what_of(const run_status& status, const rank_status& rank) {
  const auto slow = std::ranges::find(status.stragglers, rank.rank, &straggler_status::rank);
  if (slow == status.stragglers.end()) return "";
  return "straggler: " + format_milliseconds(slow->compute_ms) + " an iteration, the others " +
         format_milliseconds(slow->others_ms) + ", since iteration " +
         number(slow->since_iteration) + (slow->replaced ? "; a new process has not helped" : "");
}

std::string ranks_table(const run_status& status) {
  table shown({{"rank", align::right},
               {"incarnation", align::right},
               {"pid", align::right},
               {"phase"},
               {"iteration", align::right},
               {"committed", align::right},
               {"quiet for", align::right},
               {"compute", align::right},
               {""}});
  for (const auto& rank : status.ranks) {
    shown.add_row({number(rank.rank), number(rank.incarnation), std::to_string(rank.pid),
                   rank.alive ? rank.phase : "dead", number(rank.iteration), number(rank.committed),
                   format_milliseconds(rank.quiet_ms),
                   rank.compute_ms > 0 ? format_milliseconds(rank.compute_ms) : "-",
                   what_of(status, rank)});
  }
  return shown.render();
}

std::string to_text(const run_status& status) {
  const bool running = status.run.status == "running";
  std::string text = "run " + printable(status.run.run_id) + ": " + printable(status.run.status);
  if (!status.holder.empty()) text += " (" + printable(status.holder) + ")";
  if (!status.told) return text + "; it has not said yet where it stands\n";
  const auto age = format_seconds(status.age_seconds);
  text += running
              ? ", as of " + age + " ago\n"
              : "; its last word is of " + format_date(status.written_ms) + " (" + age + " ago)\n";
  if (!status.error.empty()) text += printable(status.error) + '\n';
  if (running && !status.stop_reason.empty()) {
    text += "asked to stop: " + printable(status.stop_reason) + '\n';
  }
  text += printable(progress_text(status)) + '\n' + printable(supervision_text(status)) + '\n';
  if (running) text += '\n' + ranks_table(status);
  return text;
}

}  // namespace

exit_code show_status(const options& asked, output& out, output& errors) {
  const auto run = find_run(asked.runs_directory, asked.run_id);
  if (!run) return complain(errors, run.error());
  const auto status = read_status(run->directory);
  if (!status) return complain(errors, status.error());
  out.write(asked.json ? to_json(*status) + '\n' : to_text(*status));
  return check_written(out, errors);
}

}  // namespace ftrt::cli
