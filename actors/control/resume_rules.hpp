#pragma once

#include <filesystem>
#include <ftrt/scenario.hpp>
#include <string_view>
#include <vector>

// What a resumed run may not change. Pure; any thread.
namespace ftrt::actors {

// Does the meaning of saved state depend on this key of a scenario, given the run's schedule of
// learning rates? Then it is for the whole run.
[[nodiscard]] bool is_fixed_by_a_run(std::string_view key, schedule_kind schedule);

// The values that an override would change though the saved state, or which samples an iteration
// takes, depends on them. One diagnostic for each, empty: none.
[[nodiscard]] std::vector<diagnostic> changes_of_fixed_values(
    const loaded_scenario& recorded, const loaded_scenario& asked,
    const std::filesystem::path& scenario_file);

// A run that stands beyond the end that is asked for: there is nothing to train, and no way back.
[[nodiscard]] std::vector<diagnostic> end_already_passed(
    std::uint64_t committed, std::uint64_t total_iterations,
    const std::filesystem::path& scenario_file);

}  // namespace ftrt::actors
