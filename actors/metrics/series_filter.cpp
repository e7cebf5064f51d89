#include <actors/metrics/series_filter.hpp>

#include <algorithm>
#include <iterator>

namespace ftrt::metrics {

series_filter::series_filter(iteration_id first_step) : first_step_(first_step) {}

bool series_filter::admit(std::string_view tag, generation_id generation, iteration_id step) {
  if (step < first_step_ || is_voided(generation, step)) return refuse();
  const auto known = newest_.find(tag);
  if (known == newest_.end()) {
    if (newest_.size() >= max_tags) return refuse();
    newest_.emplace(tag, step);
    return true;
  }
  if (step <= known->second) return refuse();
  known->second = step;
  return true;
}

void series_filter::rollback(generation_id generation, iteration_id first_step) {
  // A rollback that reaches further back makes the earlier ones' bounds that are above it
  // superfluous: what they void, it voids too, for more generations.
  std::erase_if(void_from_, [&](const auto& entry) {
    return entry.first <= generation && entry.second >= first_step;
  });
  void_from_[generation] = first_step;
  first_step_ = std::min(first_step_, first_step);
  for (auto it = newest_.begin(); it != newest_.end();) {
    if (it->second < first_step) {
      ++it;
    } else if (first_step.value() == 0) {
      it = newest_.erase(it);
    } else {
      it->second = iteration_id{first_step.value() - 1};
      ++it;
    }
  }
}

bool series_filter::is_voided(generation_id generation, iteration_id step) const {
  return std::any_of(void_from_.upper_bound(generation), void_from_.end(),
                     [step](const auto& entry) { return step >= entry.second; });
}

bool series_filter::refuse() {
  ++refused_;
  return false;
}

}  // namespace ftrt::metrics
