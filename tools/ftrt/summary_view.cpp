#include "tools/ftrt/summary_view.hpp"

#include <algorithm>
#include <string_view>

#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

// More than this many of a kind are counted, not listed: `ftrt events` has them all.
constexpr std::size_t listed_at_most = 12;

std::string counted(std::uint64_t count, std::string_view thing) {
  return std::to_string(count) + ' ' + std::string(thing) + (count == 1 ? "" : "s");
}

std::string entry(std::string_view name, const std::string& value) {
  std::string line = "  " + std::string(name);
  line.resize(std::max<std::size_t>(line.size() + 1, 18), ' ');
  return line + printable(value) + '\n';
}

std::string describe(const recovery_record& recovery) {
  std::string text = "rank " + std::to_string(recovery.rank) + " " + recovery.cause +
                     "; noticed in " + format_milliseconds(recovery.detected_ms) +
                     ", trained on after " + format_milliseconds(recovery.resumed_ms) +
                     " in generation " + std::to_string(recovery.generation) + ", state from " +
                     recovery.source;
  if (recovery.replacement == "spare") text += ", on a spare";
  if (recovery.lost_iterations > 0) {
    text += ", " + counted(recovery.lost_iterations, "iteration") + " redone";
  }
  return text;
}

std::string describe(const actor_restart_record& restart) {
  return restart.actor + ": " + restart.cause + "; at work again after " +
         format_milliseconds(restart.ms);
}

template <class Record>
std::string list(std::string_view name, std::string_view thing,
                 const std::vector<Record>& records) {
  if (records.empty()) return entry(name, "none");
  std::string text = entry(name, counted(records.size(), thing));
  const std::size_t shown = std::min(records.size(), listed_at_most);
  for (std::size_t i = 0; i < shown; ++i) text += "    " + printable(describe(records[i])) + '\n';
  if (shown < records.size()) {
    text += "    and " + std::to_string(records.size() - shown) + " more: see `ftrt events`\n";
  }
  return text;
}

std::string describe(const expectation& each) {
  return each.name + ": expected " + each.expected + ", found " + each.found +
         (each.met ? "" : ": NOT MET");
}

std::string expectations_of(const run_summary& summary) {
  if (summary.expectations.empty()) return {};
  const auto met = std::ranges::count_if(summary.expectations, &expectation::met);
  std::string text =
      entry("expectations",
            std::to_string(met) + " of " + std::to_string(summary.expectations.size()) + " met");
  for (const auto& each : summary.expectations) text += "    " + printable(describe(each)) + '\n';
  return text;
}

std::string checkpoints_of(const run_summary& summary) {
  if (summary.checkpoints_committed == 0) return "none committed";
  return std::to_string(summary.checkpoints_committed) + " committed, the last at iteration " +
         std::to_string(summary.last_checkpoint_iteration);
}

}  // namespace

std::string describe(const run_summary& summary, const std::filesystem::path& directory) {
  std::string text = "\nrun " + printable(summary.run_id) + ": " + printable(summary.status) + '\n';
  if (!summary.error.empty()) text += entry("error", summary.error);
  text += entry("iterations", std::to_string(summary.iterations) + " (" +
                                  format_number(summary.epochs, 4) + " epochs, " +
                                  counted(summary.optimizer_steps, "optimizer step") + ")");
  text += entry("test accuracy", format_percent(summary.test_accuracy));
  text += entry("train loss", format_number(summary.train_loss, 4));
  text += entry("weights digest", summary.weights_digest.empty() ? "-" : summary.weights_digest);
  text += list("recoveries", "lost rank", summary.recoveries);
  text += list("actor restarts", "actor", summary.actor_restarts);
  text += entry("checkpoints", checkpoints_of(summary));
  text += entry("speed", format_rate(summary.samples_per_second) + ", goodput " +
                             format_percent(summary.goodput) + ", " +
                             format_seconds(summary.wall_seconds) + " in all, " +
                             counted(summary.world_size, "rank") + ", " +
                             counted(summary.generations, "generation"));
  text += expectations_of(summary);
  if (!directory.empty()) text += entry("directory", directory.string());
  return text;
}

}  // namespace ftrt::cli
