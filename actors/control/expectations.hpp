#pragma once

#include <ftrt/scenario.hpp>
#include <ftrt/summary.hpp>
#include <optional>
#include <string>
#include <vector>

// What a scenario's [expect] asks of the run, held against what it came to. Pure.
namespace ftrt::actors {

// What the same run came to without its faults.
struct fault_free_outcome {
  std::string weights_digest;  // empty: it has none
  std::string trouble;         // why not
};

// The fault-free run must be made before the run can be judged: its digest is asked for, the run
// has one of its own, and there were faults.
[[nodiscard]] bool needs_fault_free_run(const scenario& values, const run_summary& summary);

// The same training without faults and without what is expected, to be kept in `directory`.
[[nodiscard]] scenario fault_free(const scenario& values, const std::filesystem::path& directory);

// Empty where nothing is expected, and for a run that was stopped early unless a status is asked
// for: nobody can expect anything of half a run. `most_lost`: committed iterations that one
// rollback undid, at most.
[[nodiscard]] std::vector<expectation> judge(const scenario& values, const run_summary& summary,
                                             std::uint64_t most_lost,
                                             const std::optional<fault_free_outcome>& without);

[[nodiscard]] bool all_met(const std::vector<expectation>& expectations);

}  // namespace ftrt::actors
