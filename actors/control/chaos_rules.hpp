#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <vector>

// What is wrong with a scenario's faults that only a run can know. `file`: the scenario's; empty:
// whoever has read it knows the place of each key.
namespace ftrt::actors {

// Kinds that the program must have agreed to.
[[nodiscard]] std::vector<diagnostic> unwelcome_kinds(const scenario& values,
                                                      const run_options& options,
                                                      const std::filesystem::path& file);

// Faults at iterations that the run does not have, now that model and data say how many those are.
[[nodiscard]] std::vector<diagnostic> faults_after_the_end(const scenario& values,
                                                           std::uint64_t total_iterations,
                                                           const std::filesystem::path& file);

}  // namespace ftrt::actors
