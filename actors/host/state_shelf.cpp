#include <actors/host/state_shelf.hpp>
#include <algorithm>
#include <utility>

namespace ftrt::host {

void state_shelf::begin_generation(generation_id generation) {
  const std::lock_guard lock{mutex_};
  newest_ = std::max(newest_, generation);
}

bool state_shelf::is_stale(generation_id asked) const {
  const std::lock_guard lock{mutex_};
  return asked < newest_;
}

bool state_shelf::offer(generation_id asked, state_ptr state) {
  const std::lock_guard lock{mutex_};
  if (asked < newest_) return false;
  std::erase_if(offers_, [&](const offered& before) {
    return before.asked != asked || before.state->iteration == state->iteration;
  });
  if (offers_.size() == most_offers) offers_.erase(offers_.begin());
  offers_.push_back({asked, std::move(state)});
  return true;
}

void state_shelf::discard(generation_id asked, const state_ptr& state) {
  const std::lock_guard lock{mutex_};
  if (asked < newest_) return;
  std::erase_if(offers_, [&](const offered& each) { return each.state == state; });
  if (loaded_ == state) loaded_.reset();
}

std::vector<state_shelf::state_ptr> state_shelf::all() const {
  const std::lock_guard lock{mutex_};
  std::vector<state_ptr> found;
  for (const auto& each : offers_) found.push_back(each.state);
  std::ranges::reverse(found);
  if (loaded_ && std::ranges::find(found, loaded_) == found.end()) found.push_back(loaded_);
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const state_ptr& state) { return state->iteration; });
  return found;
}

state_shelf::state_ptr state_shelf::of(iteration_id iteration) const {
  const std::lock_guard lock{mutex_};
  return find(iteration);
}

state_shelf::state_ptr state_shelf::find(iteration_id iteration) const {
  for (const auto& each : offers_) {
    if (each.state->iteration == iteration) return each.state;
  }
  return loaded_ && loaded_->iteration == iteration ? loaded_ : nullptr;
}

void state_shelf::loaded(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  if (auto state = find(iteration)) loaded_ = std::move(state);
  offers_.clear();
}

void state_shelf::forget_offers() {
  const std::lock_guard lock{mutex_};
  offers_.clear();
}

void state_shelf::roll_back_to(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  std::erase_if(offers_, [&](const offered& each) { return each.state->iteration > iteration; });
  if (loaded_ && loaded_->iteration > iteration) loaded_.reset();
}

}  // namespace ftrt::host
