#include "tools/ftrt/postmortem_command.hpp"

#include <algorithm>
#include <ftrt/catalog.hpp>
#include <ftrt/postmortem.hpp>

#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/table.hpp"
#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

// Of each rank; --json has all that are kept.
constexpr std::size_t shown_records = 8;

bool is_among(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

std::string verdict_of(const postmortem& report, const postmortem_rank& rank) {
  std::string text = rank.lost ? rank.cause : rank.alive ? "survived" : "dead";
  if (!rank.member) return text + "; had not entered the generation";
  const auto number = std::to_string(report.collective);
  if (is_among(report.missing, rank.rank)) text += "; did not arrive in collective " + number;
  if (is_among(report.waiting, rank.rank)) text += "; waited in collective " + number;
  return text;
}

std::string ranks_table(const postmortem& report) {
  table shown({{"rank", align::right},
               {"incarnation", align::right},
               {"pid", align::right},
               {"phase"},
               {"iteration", align::right},
               {"committed", align::right},
               {"collective", align::right},
               {"of it", align::right},
               {"quiet for", align::right},
               {"what"}});
  for (const auto& rank : report.ranks) {
    const auto told = [&](std::string text) { return rank.member ? std::move(text) : "-"; };
    shown.add_row(
        {std::to_string(rank.rank), std::to_string(rank.incarnation), std::to_string(rank.pid),
         rank.phase, told(std::to_string(rank.iteration)), std::to_string(rank.committed),
         told(std::to_string(rank.begun) + (rank.begun > rank.completed ? " (in it)" : "")),
         told(format_bytes(rank.reduced_bytes)), format_milliseconds(rank.quiet_ms),
         verdict_of(report, rank)});
  }
  return shown.render();
}

// What an iteration's digest took is of no interest here.
std::vector<postmortem_record> last_records(const postmortem_rank& rank) {
  auto shown = rank.records;
  std::erase_if(shown, [](const auto& record) { return record.kind == "digest"; });
  const auto most = std::min(shown.size(), shown_records);
  shown.erase(shown.begin(), shown.end() - static_cast<std::ptrdiff_t>(most));
  return shown;
}

std::string records_table(const postmortem& report) {
  table shown({{"rank", align::right},
               {"record"},
               {"iteration", align::right},
               {"collectives", align::right},
               {"reduced", align::right},
               {"compute", align::right},
               {"reduce", align::right},
               {"whole", align::right},
               {"ago", align::right}});
  for (const auto& rank : report.ranks) {
    for (const auto& record : last_records(rank)) {
      const bool iteration = record.kind == "iteration";
      shown.add_row({std::to_string(rank.rank), record.kind, std::to_string(record.iteration),
                     iteration ? std::to_string(record.collectives) : "-",
                     iteration ? format_bytes(record.reduced_bytes) : "-",
                     format_milliseconds(record.compute_ms), format_milliseconds(record.reduce_ms),
                     format_milliseconds(record.step_ms), format_milliseconds(record.ago_ms)});
    }
  }
  return shown.render();
}

std::string to_text(const run_row& run, const postmortem& report,
                    const std::vector<std::uint64_t>& known) {
  std::string text = "run " + printable(run.run_id) + ", generation " +
                     std::to_string(report.generation) + ", ended " + format_date(report.taken_ms) +
                     '\n' + printable(headline(report)) + "\n\n" + ranks_table(report) +
                     "\nThe last iterations (collectives: how many of the " +
                     "generation were done by then)\n" + records_table(report);
  if (known.size() > 1) {
    text += "\nReports: generations " + std::to_string(known.front()) + " to " +
            std::to_string(known.back()) + " (" + std::to_string(known.size()) + ")\n";
  }
  return text;
}

}  // namespace

exit_code show_postmortem(const options& asked, output& out, output& errors) {
  const auto run = find_run(asked.runs_directory, asked.run_id);
  if (!run) return complain(errors, run.error());
  const auto report = read_postmortem(run->directory, asked.generation);
  if (!report) return complain(errors, report.error());
  if (asked.json) {
    out.write(to_json(*report) + '\n');
  } else {
    out.write(to_text(*run, *report, list_postmortems(run->directory)));
  }
  return check_written(out, errors);
}

}  // namespace ftrt::cli
