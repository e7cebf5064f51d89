#include <actors/control/standing_orders.hpp>
#include <algorithm>
#include <utility>

namespace ftrt::actors {

protocol::injure standing_orders::add(std::size_t entry, rank_id rank, protocol::injure what) {
  const std::lock_guard lock{mutex_};
  what.number = ++last_number_;
  orders_.push_back({entry, rank, what});
  return what;
}

std::vector<protocol::injure> standing_orders::of(rank_id rank) const {
  const std::lock_guard lock{mutex_};
  std::vector<protocol::injure> found;
  for (const auto& each : orders_) {
    if (each.rank == rank) found.push_back(each.what);
  }
  return found;
}

std::vector<standing_orders::order> standing_orders::settle(
    rank_id rank, std::span<const std::uint64_t> numbers) {
  const std::lock_guard lock{mutex_};
  std::vector<order> settled;
  std::erase_if(orders_, [&](const order& each) {
    const bool obeyed =
        each.rank == rank && std::ranges::find(numbers, each.what.number) != numbers.end();
    if (obeyed) settled.push_back(each);
    return obeyed;
  });
  return settled;
}

std::vector<standing_orders::order> standing_orders::all() const {
  const std::lock_guard lock{mutex_};
  return orders_;
}

bool standing_orders::empty() const {
  const std::lock_guard lock{mutex_};
  return orders_.empty();
}

}  // namespace ftrt::actors
