#include <algorithm>
#include <tests/actors/recovery/simulator.hpp>
#include <tuple>

// The rungs below the survivors, as control searches them, and the shrinking of what failed.
namespace ftrt::recovery::sim {

// As the host table does: an older incarnation's snapshots are kept until successors have two.
void simulator::forget_the_dead(std::vector<worker>& incarnations) {
  std::size_t newer = 0;
  for (std::size_t i = incarnations.size(); i-- > 0;) {
    worker& w = incarnations[i];
    if (w.snapshots.empty()) continue;
    const auto count = w.snapshots.size();
    if (newer >= 2 && i + 2 < incarnations.size()) w.snapshots.clear();
    newer += count;
  }
  const auto of_no_use = [&] {
    return incarnations.size() > 4 && incarnations.front().snapshots.empty();
  };
  while (of_no_use()) incarnations.erase(incarnations.begin());
}

// Newest first; of this branch, and of no generation before it.
std::vector<shelved> simulator::complete_snapshots() {
  std::map<std::tuple<iteration_id, generation_id>, std::vector<const snapshot*>> sets;
  for (const auto& incarnations : ranks_)
    for (const worker& w : incarnations)
      for (const snapshot& s : w.snapshots)
        if (s.branch == branch_ && s.generation >= branch_since_)
          sets[{s.iteration, s.generation}].push_back(&s);
  std::vector<shelved> complete;
  for (const auto& [key, parts] : sets) {
    if (parts.size() != ranks_.size()) continue;
    const auto torn = [](const snapshot* s) { return s->torn; };
    if (std::ranges::any_of(parts, torn)) continue;  // set aside
    shelved whole{std::get<0>(key), parts.front()->content, false};
    for (const snapshot* part : parts) {
      whole.poisoned = whole.poisoned || part->poisoned;
      if (part->content != whole.content) whole.content ^= part->content;  // parts of two states
    }
    if (plan_.sabotage) ++whole.content;
    complete.push_back(whole);
  }
  std::ranges::reverse(complete);
  return complete;
}

std::optional<rung> simulator::newest_source(const find_source& a) {
  const auto refused = [&](rung::kind from, iteration_id k) {
    return std::ranges::any_of(
        a.quarantined, [&](const rung& bad) { return bad.from == from && bad.iteration == k; });
  };
  std::erase_if(checkpoints_,
                [&](std::uint64_t k) { return refused(rung::kind::checkpoint, iteration_id{k}); });
  const auto disputed = [&](iteration_id k) { return a.not_beyond && k > *a.not_beyond; };
  std::erase_if(checkpoints_, [&](std::uint64_t k) { return disputed(iteration_id{k}); });
  const std::uint64_t on_disk = checkpoints_.empty() ? 0 : *std::ranges::max_element(checkpoints_);
  if (a.memory) {
    auto in_memory = complete_snapshots();
    if (shelf_) in_memory.push_back(*shelf_);
    std::ranges::stable_sort(in_memory, std::ranges::greater{}, &shelved::iteration);
    for (const shelved& each : in_memory) {
      if (each.iteration.value() < on_disk) break;
      if (refused(rung::kind::snapshot, each.iteration) || disputed(each.iteration)) continue;
      shelf_ = each;
      return rung{rung::kind::snapshot, each.iteration, {}};
    }
  }
  if (checkpoints_.empty()) return std::nullopt;
  return rung{rung::kind::checkpoint, iteration_id{on_disk}, "/c/" + std::to_string(on_disk)};
}

// What is loaded is what was found, and nothing older.
void simulator::check_source(const protocol::join& j) const {
  using protocol::state_role;
  const bool loads = j.role == state_role::load_snapshot || j.role == state_role::load_checkpoint ||
                     j.role == state_role::initial;
  if (!loads) return;
  const auto found = offered_.find(j.generation.value() - 1);
  require(found != offered_.end(), "loads without having asked");
  const auto is_this = [&j](const std::optional<rung>& offered) {
    if (!offered) return j.role == state_role::initial && j.iteration.value() == 0;
    const auto role = offered->from == rung::kind::snapshot ? state_role::load_snapshot
                                                            : state_role::load_checkpoint;
    return j.role == role && j.iteration == offered->iteration;
  };
  require(std::ranges::any_of(found->second, is_this), "loads something else than was found");
}

// ---- shrinking ---------------------------------------------------------------------------------

namespace {

bool breaks_a_law(schedule s) {
  s.trace = false;
  try {
    static_cast<void>(simulator(std::move(s)).run());
    return false;
  } catch (const law_broken&) {
    return true;
  }
}

// Without one of its faults, if it still breaks a law then.
bool drop_one(schedule& failing) {
  for (const std::uint64_t number : std::vector<std::uint64_t>(*failing.kept)) {
    std::vector<std::uint64_t> fewer = *failing.kept;
    std::erase(fewer, number);
    schedule smaller = failing;
    smaller.kept = std::move(fewer);
    if (!breaks_a_law(smaller)) continue;
    failing = std::move(smaller);
    return true;
  }
  return false;
}

}  // namespace

schedule shrink(schedule failing) {
  if (!failing.kept) {
    failing.kept.emplace();
    const std::uint64_t drawn = simulator(failing).drawn_faults();
    for (std::uint64_t number = 0; number < drawn; ++number) failing.kept->push_back(number);
  }
  while (drop_one(failing)) {
  }
  schedule quiet = failing;
  quiet.noise = false;
  if (breaks_a_law(quiet)) {
    failing = std::move(quiet);
    while (drop_one(failing)) {
    }
  }
  return failing;
}

std::string replay_command(const schedule& s) {
  std::string text = "FTRT_SIM_SEED=" + std::to_string(s.seed);
  if (s.kept) {
    text += " FTRT_SIM_FAULTS=";
    for (const std::uint64_t number : *s.kept) text += std::to_string(number) + ',';
  }
  if (!s.noise) text += " FTRT_SIM_NOISE=0";
  return text + " build/tests/recovery_simulation_test --gtest_filter='*laws*'";
}

}  // namespace ftrt::recovery::sim
