#include <actors/control/resume_rules.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace ftrt::actors {
namespace {

// Kept in the training state, which would not load; or the meaning of the data position in it.
constexpr std::array fixed_keys{
    std::string_view{"run.seed"},           std::string_view{"data.kind"},
    std::string_view{"data.samples"},       std::string_view{"data.limit"},
    std::string_view{"data.last"},          std::string_view{"data.shuffle"},
    std::string_view{"train.global_batch"}, std::string_view{"train.micro_batch"},
    std::string_view{"train.lr"},           std::string_view{"train.momentum"},
    std::string_view{"train.nesterov"},     std::string_view{"train.weight_decay"},
    std::string_view{"train.beta1"},        std::string_view{"train.beta2"},
    std::string_view{"train.eps"}};

std::string value_of(const loaded_scenario& scenario, std::string_view key) {
  const auto found = std::ranges::find(scenario.resolved, key, &resolved_value::key);
  return found == scenario.resolved.end() ? "" : found->value;
}

}  // namespace

std::vector<diagnostic> changes_of_fixed_values(const loaded_scenario& recorded,
                                                const loaded_scenario& asked,
                                                const std::filesystem::path& scenario_file) {
  std::vector<diagnostic> faults;
  for (const auto key : fixed_keys) {
    const auto before = value_of(recorded, key);
    const auto now = value_of(asked, key);
    if (before == now) continue;
    faults.push_back({scenario_file.string(), 0, std::string{key}, before + ", as the run has it",
                      now,
                      "a run cannot change it on its way: resume without, or start a new run"});
  }
  return faults;
}

std::vector<diagnostic> end_already_passed(std::uint64_t committed, std::uint64_t total_iterations,
                                           const std::filesystem::path& scenario_file) {
  if (committed <= total_iterations) return {};
  return {{scenario_file.string(), 0, "train.epochs",
           "an end that is not behind iteration " + std::to_string(committed) +
               ", where the run stands",
           "an end after " + std::to_string(total_iterations) + " iterations",
           "ask for more epochs, or more iterations"}};
}

}  // namespace ftrt::actors
