#include <actors/control/expectations.hpp>
#include <algorithm>
#include <utility>

namespace ftrt::actors {
namespace {

constexpr const char* same = "same_as_fault_free";

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

std::string or_none(const std::string& digest) {
  return digest.empty() ? "none" : digest;
}

expectation digest_expectation(const scenario& values, const run_summary& summary,
                               const std::optional<fault_free_outcome>& without) {
  expectation made{"weights_digest", values.expect.weights_digest, or_none(summary.weights_digest),
                   false};
  std::string wanted = values.expect.weights_digest;
  if (wanted == same) {
    // Without a fault it is its own.
    wanted = values.chaos.empty() ? summary.weights_digest
             : without            ? without->weights_digest
                                  : std::string{};
    made.expected += wanted.empty() ? "" : " (" + wanted + ")";
    if (without && wanted.empty()) {
      made.found += "; the run without faults has none: " + without->trouble;
    }
  }
  made.met = !summary.weights_digest.empty() && summary.weights_digest == wanted;
  return made;
}

}  // namespace

bool needs_fault_free_run(const scenario& values, const run_summary& summary) {
  const bool judged = summary.status != "stopped" || !values.expect.status.empty();
  return judged && values.expect.weights_digest == same && !values.chaos.empty() &&
         !summary.weights_digest.empty();
}

scenario fault_free(const scenario& values, const std::filesystem::path& directory) {
  scenario plain = values;
  plain.chaos.clear();
  plain.expect = {};
  plain.run.directory = directory;
  plain.run.name = "fault-free";
  plain.metrics.tensorboard = false;
  plain.checkpoint.every_iterations = 0;  // the final one: weights do not depend on the others
  plain.checkpoint.snapshot_every_iterations = 0;
  return plain;
}

std::vector<expectation> judge(const scenario& values, const run_summary& summary,
                               std::uint64_t most_lost,
                               const std::optional<fault_free_outcome>& without) {
  const auto& wanted = values.expect;
  std::vector<expectation> made;
  if (summary.status == "stopped" && wanted.status.empty()) return made;
  if (!wanted.status.empty()) {
    made.push_back({"status", wanted.status, summary.status, summary.status == wanted.status});
  }
  if (!wanted.weights_digest.empty()) made.push_back(digest_expectation(values, summary, without));
  const auto at_most = [&](const char* name, const auto& limit, std::uint64_t found) {
    if (limit) made.push_back({name, "at most " + text(*limit), text(found), found <= *limit});
  };
  const auto at_least = [&](const char* name, const auto& limit, std::uint64_t found) {
    if (limit) made.push_back({name, "at least " + text(*limit), text(found), found >= *limit});
  };
  at_most("max_lost_iterations", wanted.max_lost_iterations, most_lost);
  at_least("min_recoveries", wanted.min_recoveries, summary.recoveries.size());
  at_most("max_recoveries", wanted.max_recoveries, summary.recoveries.size());
  at_least("min_actor_restarts", wanted.min_actor_restarts, summary.actor_restarts.size());
  return made;
}

bool all_met(const std::vector<expectation>& expectations) {
  return std::ranges::all_of(expectations, &expectation::met);
}

}  // namespace ftrt::actors
