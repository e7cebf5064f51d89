#include <actors/recovery/straggler_watch.hpp>

#include <algorithm>
#include <numeric>

namespace ftrt::recovery {
namespace {

constexpr std::chrono::nanoseconds unknown{-1};
// What a hostile page may say of one iteration; a sum of a window's stays far from overflowing.
constexpr std::chrono::nanoseconds longest = std::chrono::hours{24};

template <class Number>
Number median(std::vector<Number> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double count_of(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count());
}

bool is_whole(const std::vector<std::chrono::nanoseconds>& times) {
  return std::ranges::none_of(times, [](auto time) { return time == unknown; });
}

}  // namespace

straggler_watch::straggler_watch(straggler_limits limits, std::vector<std::uint64_t> shares)
    : limits_(limits), tracks_(shares.size()) {
  for (std::uint32_t r = 0; r < tracks_.size(); ++r) {
    tracks_[r].share = std::max<std::uint64_t>(shares[r], 1);
    tracks_[r].said.rank = rank_id{r};
  }
}

void straggler_watch::begin(generation_id generation, time_point now) {
  if (generation == generation_) return;
  generation_ = generation;
  begun_ = now;
  judged_ = {};
  open_.clear();
  // The threads may be others now; what a window in a row is has no meaning across a recovery.
  for (track& each : tracks_) {
    each.starved = {};
    each.starved_before.reset();
    each.slow = each.fine = 0;
  }
}

void straggler_watch::add(rank_id rank, generation_id generation, iteration_id iteration,
                          std::chrono::nanoseconds compute) {
  if (generation != generation_ || rank.value() >= tracks_.size() || iteration <= judged_) return;
  auto [at, is_new] = open_.try_emplace(iteration);
  if (is_new) at->second.assign(tracks_.size(), unknown);
  auto& mine = at->second[rank.value()];
  if (mine == unknown) mine = std::clamp(compute, std::chrono::nanoseconds{0}, longest);
  if (open_.size() > max_open) open_.erase(open_.begin());
}

std::size_t straggler_watch::whole() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(open_, [](const auto& item) { return is_whole(item.second); }));
}

bool straggler_watch::is_due(time_point now) const {
  if (tracks_.size() < 2 || now - begun_ < limits_.window) return false;
  return whole() >= limits_.iterations;
}

// What each rank is compared with: nanoseconds for a micro-batch, without any excuse, since a rank
// that was starved must not make the others look slow. Its own figure is `track::compute`, which
// excuses what it can.
std::vector<double> straggler_watch::figures(std::span<const std::optional<processor_use>> uses,
                                             time_point now) {
  std::vector<double> found(tracks_.size());
  for (std::size_t r = 0; r < tracks_.size(); ++r) {
    track& of = tracks_[r];
    of.starved.note(now, r < uses.size() ? uses[r] : std::nullopt);
    const auto starved = of.starved.total();
    const bool known = starved && of.starved_before && *starved > *of.starved_before;
    const auto excused = known ? *starved - *of.starved_before : std::chrono::nanoseconds{0};
    of.starved_before = starved;
    times mine;
    for (const auto& [iteration, all] : open_)
      if (is_whole(all)) mine.push_back(all[r]);
    const auto sum = std::accumulate(mine.begin(), mine.end(), std::chrono::nanoseconds{0});
    const auto mean = std::max(sum - excused, std::chrono::nanoseconds{0}) /
                      static_cast<std::int64_t>(mine.size());
    const auto middle = median(std::move(mine));
    of.compute = std::min(middle, mean);
    found[r] = count_of(middle) / static_cast<double>(of.share);
  }
  return found;
}

straggler_watch::judgement straggler_watch::judge(
    time_point now, std::span<const std::optional<processor_use>> uses) {
  judgement found;
  if (!is_due(now)) return found;
  const auto each = figures(uses, now);
  for (std::size_t r = 0; r < tracks_.size(); ++r) {
    track& of = tracks_[r];
    auto others = each;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(r));
    const double usual = median(others) * static_cast<double>(of.share);
    const double mine = count_of(of.compute);
    const bool is_slow = mine > limits_.factor * usual && mine - usual > count_of(limits_.floor);
    if (is_slow && of.slow == 0 && !of.is_named) of.said.since = open_.begin()->first;
    of.said.compute = of.compute;
    of.said.others = std::chrono::nanoseconds{static_cast<std::int64_t>(usual)};
    settle(of, is_slow, found);
  }
  close_window(now);
  return found;
}

// What not all ranks have spoken of yet may be the beginning of the next one.
void straggler_watch::close_window(time_point now) {
  for (const auto& [iteration, all] : open_)
    if (is_whole(all)) judged_ = iteration;
  open_.erase(open_.begin(), open_.upper_bound(judged_));
  begun_ = now;
}

void straggler_watch::settle(track& of, bool is_slow, judgement& found) const {
  of.slow = is_slow ? of.slow + 1 : 0;
  of.fine = is_slow ? 0 : of.fine + 1;
  if (of.fine >= of.probation) of.on_probation = of.said.replaced = false;
  if (!of.is_named && of.slow >= limits_.windows) {
    of.is_named = true;
    of.said.replaced = of.on_probation;
    found.named.push_back(of.said);
  } else if (of.is_named && of.fine >= limits_.windows) {
    of.is_named = false;
    found.restored.push_back(of.said);
  }
}

void straggler_watch::replaced(rank_id rank) {
  if (rank.value() >= tracks_.size()) return;
  track& of = tracks_[rank.value()];
  of.is_named = false;
  of.on_probation = true;
  of.probation =
      of.probation == 0
          ? limits_.probation
          : std::min(2 * of.probation, std::max(limits_.longest_probation, limits_.probation));
  of.slow = of.fine = 0;
}

std::vector<straggler> straggler_watch::current() const {
  std::vector<straggler> named;
  for (const track& each : tracks_)
    if (each.is_named) named.push_back(each.said);
  return named;
}

std::optional<straggler> straggler_watch::candidate() const {
  std::optional<straggler> slowest;
  for (const track& each : tracks_) {
    const bool may = each.is_named && !each.said.replaced && each.slow >= limits_.windows;
    if (may && (!slowest || each.said.compute > slowest->compute)) slowest = each.said;
  }
  return slowest;
}

std::vector<std::chrono::nanoseconds> straggler_watch::compute_times() const {
  std::vector<std::chrono::nanoseconds> all;
  for (const track& each : tracks_) all.push_back(each.compute);
  return all;
}

}  // namespace ftrt::recovery
