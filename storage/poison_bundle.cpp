#include <nlohmann/json.hpp>
#include <span>
#include <storage/file_ops.hpp>
#include <storage/poison_bundle.hpp>
#include <string_view>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

// A path as a shell takes it.
std::string quoted(const fs::path& path) {
  std::string text = "'";
  for (const char c : path.string()) text += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return text + "'";
}

// From the start: the same seed leads to the same batch in the same iteration.
std::string from_the_start(const fs::path& run) {
  return "ftrt --scenario " + quoted(run / "scenario.toml");
}

// From the newest checkpoint before it; a run that leaves the batch out would do so again.
std::string from_the_checkpoint(const fs::path& run) {
  return "ftrt resume " + quoted(run) + " --set supervision.poisoned_batch=stop";
}

std::string without_it(const fs::path& run) {
  return "ftrt resume " + quoted(run) + " --set supervision.poisoned_batch=skip";
}

json to_json(const fs::path& run, const poison_report& report) {
  json batches = json::array();
  for (const auto& batch : report.batches) {
    batches.push_back({{"micro_batch", batch.micro_batch}, {"sample_ids", batch.sample_ids}});
  }
  json replay = json::array({from_the_start(run)});
  if (!report.skipped) replay.push_back(from_the_checkpoint(run));
  return {{"run_id", report.run_id},
          {"seed", report.seed},
          {"rank", report.rank.value()},
          {"world_size", report.world_size},
          {"iteration", report.iteration.value()},
          {"epoch", report.epoch},
          {"times", report.times},
          {"cause", report.cause},
          {"outcome", report.skipped ? "skip" : "stop"},
          {"died_at_micro_batch", report.micro_batch},
          {"micro_batches", std::move(batches)},
          {"stderr", report.stderr_tail},
          {"replay", std::move(replay)}};
}

std::string read_me(const fs::path& run, const poison_report& report) {
  const auto iteration = std::to_string(report.iteration.value());
  std::string text = "Rank " + std::to_string(report.rank.value()) + " of " +
                     std::to_string(report.world_size) + " of run " + report.run_id + " died " +
                     std::to_string(report.times) + " times in a row in iteration " + iteration +
                     ":\n  " + report.cause + "\n\n";
  text +=
      "bundle.json has the samples that it was at (ids as the data set counts them, from 0),\n"
      "the micro-batches of the whole window that they are of, and the seed; stderr.txt what\n"
      "the process last said.\n\n";
  text += "To see it happen again, from the start:\n  " + from_the_start(run) + '\n';
  if (report.skipped) {
    return text +
           "\nThe run has gone on without that iteration's batch: it is committed without an\n"
           "optimizer step, and whoever resumes the run leaves it out as well.\n";
  }
  return text + "or from the newest checkpoint before it:\n  " + from_the_checkpoint(run) +
         "\n\nTo go on without that batch:\n  " + without_it(run) + '\n';
}

result<void> publish(const fs::path& file, std::string_view text) {
  return publish_file(system_files(), file, std::as_bytes(std::span{text}));
}

}  // namespace

fs::path poison_folder(iteration_id iteration, rank_id rank) {
  return fs::path{"poisoned"} / ("iteration-" + std::to_string(iteration.value()) + "-rank-" +
                                 std::to_string(rank.value()));
}

result<void> write_poison_bundle(const fs::path& run_directory, const poison_report& report) {
  const auto folder = run_directory / poison_folder(report.iteration, report.rank);
  for (const auto& each : {folder.parent_path(), folder}) {
    if (auto ok = system_files().make_directory(each); !ok) return ok;
  }
  if (auto ok = publish(folder / "stderr.txt", report.stderr_tail); !ok) return ok;
  if (auto ok = publish(folder / "README.txt", read_me(run_directory, report)); !ok) return ok;
  return publish(
      folder / "bundle.json",
      to_json(run_directory, report).dump(2, ' ', false, json::error_handler_t::replace) + '\n');
}

}  // namespace ftrt::storage
