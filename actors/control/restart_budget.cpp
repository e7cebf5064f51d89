#include <actors/control/restart_budget.hpp>
#include <algorithm>

namespace ftrt::actors {

std::optional<std::chrono::nanoseconds> restart_budget::next(time_point now) {
  while (!restarts_.empty() && now - restarts_.front() > window_) restarts_.pop_front();
  if (restarts_.size() >= most_) return std::nullopt;
  restarts_.push_back(now);
  const auto lately = static_cast<std::uint64_t>(std::ranges::count_if(
      restarts_, [&](time_point when) { return now - when < std::chrono::seconds{1}; }));
  if (lately <= free_restarts) return std::chrono::nanoseconds{0};
  const auto doublings = std::min<std::uint64_t>(lately - free_restarts - 1, 20);
  const std::chrono::nanoseconds delay = first_delay * (std::int64_t{1} << doublings);
  // A quarter up or down, by a hash of the count: actors that died together come back apart.
  const auto jitter = static_cast<std::int64_t>(restarts_.size() * 2654435761U % 512) - 256;
  return std::min(delay + delay * jitter / 1024, longest_delay_);
}

}  // namespace ftrt::actors
