#include <actors/recovery/step_times.hpp>

#include <algorithm>

namespace ftrt::recovery {

void step_times::add(std::uint64_t count, std::chrono::nanoseconds elapsed) {
  if (count == 0) return;
  count = std::min<std::uint64_t>(count, 1u << 30);
  iterations_ += count;
  const auto each = elapsed.count() / static_cast<std::int64_t>(count);
  samples_[added_++ % remembered] = std::chrono::nanoseconds{each};
}

std::optional<std::chrono::nanoseconds> step_times::high() const {
  if (added_ < enough && iterations_ < enough_iterations) return std::nullopt;
  const auto known = std::min(added_, remembered);
  auto sorted = samples_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(known);
  const auto index = known - 1 - known * outliers_of_16 / 16;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(sorted.begin(), at, end);
  return *at;
}

}  // namespace ftrt::recovery
