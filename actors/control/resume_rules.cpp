#include <actors/control/resume_rules.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace ftrt::actors {
namespace {

// What the saved state is, or what its numbers mean: its tensors, the options and the loss scale in
// it, the optimizer steps that it counts as a place in the schedule, the samples as one in the
// data. An override of any other key says how to go on from there.
constexpr std::array fixed_keys{
    // the order of samples, the initial weights
    std::string_view{"run.seed"},
    // its tensors
    std::string_view{"model.kind"}, std::string_view{"model.layers"},
    std::string_view{"model.channels"}, std::string_view{"model.batch_norm"},
    std::string_view{"train.optimizer"},
    // its place in the data
    std::string_view{"data.kind"}, std::string_view{"data.samples"}, std::string_view{"data.limit"},
    std::string_view{"data.last"}, std::string_view{"data.shuffle"},
    std::string_view{"train.global_batch"}, std::string_view{"train.micro_batch"},
    // the optimizer's options in it
    std::string_view{"train.lr"}, std::string_view{"train.momentum"},
    std::string_view{"train.nesterov"}, std::string_view{"train.weight_decay"},
    std::string_view{"train.beta1"}, std::string_view{"train.beta2"}, std::string_view{"train.eps"},
    // its place in the schedule
    std::string_view{"train.schedule"}, std::string_view{"train.warmup_steps"},
    std::string_view{"train.decay_every"}, std::string_view{"train.decay_factor"},
    std::string_view{"train.min_lr"},
    // the loss scaler in it, and the arithmetic that its weights come from
    std::string_view{"train.amp"}, std::string_view{"train.init_scale"},
    std::string_view{"train.scale_growth_interval"}};

// A cosine is as long as the run: its place in it is a share of the end that was asked for.
constexpr std::array fixed_by_a_cosine{std::string_view{"train.epochs"},
                                       std::string_view{"train.max_iterations"}};

std::string value_of(const loaded_scenario& scenario, std::string_view key) {
  const auto found = std::ranges::find(scenario.resolved, key, &resolved_value::key);
  return found == scenario.resolved.end() ? "" : found->value;
}

}  // namespace

bool is_fixed_by_a_run(std::string_view key, schedule_kind schedule) {
  if (schedule == schedule_kind::cosine &&
      std::ranges::find(fixed_by_a_cosine, key) != fixed_by_a_cosine.end()) {
    return true;
  }
  return std::ranges::find(fixed_keys, key) != fixed_keys.end();
}

std::vector<diagnostic> changes_of_fixed_values(const loaded_scenario& recorded,
                                                const loaded_scenario& asked,
                                                const std::filesystem::path& scenario_file) {
  std::vector<diagnostic> faults;
  const auto compare = [&](std::string_view key, std::string hint) {
    const auto before = value_of(recorded, key);
    const auto now = value_of(asked, key);
    if (before == now) return;
    faults.push_back({scenario_file.string(), 0, std::string{key}, before + ", as the run has it",
                      now, std::move(hint)});
  };
  for (const auto key : fixed_keys) {
    compare(key, "a run cannot change it on its way: resume without, or start a new run");
  }
  if (recorded.values.train.schedule != schedule_kind::cosine) return faults;
  for (const auto key : fixed_by_a_cosine) {
    compare(key,
            "train.schedule = \"cosine\" is as long as the run, so that every learning rate "
            "would change: resume without, or start a new run");
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
