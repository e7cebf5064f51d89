#include <actors/control/chaos_schedule.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

namespace ftrt::actors {

chaos_schedule::chaos_schedule(std::vector<chaos_entry> entries, std::uint32_t world_size,
                               const std::vector<fault_history>& history) {
  for (auto& entry : entries) {
    plan p;
    p.random.seed(entry.seed);
    p.next_iteration = entry.at_iteration.value_or(entry.every_iterations.value_or(0));
    if (entry.all_ranks) {
      entry.ranks.clear();
      for (std::uint32_t rank = 0; rank < world_size; ++rank) entry.ranks.push_back(rank);
    }
    p.done = entry.kind == chaos_kind::poison;
    p.entry = std::move(entry);
    if (plans_.size() < history.size()) take_up(p, history[plans_.size()]);
    plans_.push_back(std::move(p));
  }
}

// What was caused before is not caused again, and what is random goes on from there.
void chaos_schedule::take_up(plan& p, const fault_history& history) {
  for (const auto& firing : history.firings) {
    ++p.fired;
    if (p.entry.mtbf) static_cast<void>(interval(p));
    if (p.entry.every_iterations) {
      p.next_iteration = std::max(p.next_iteration, p.next_multiple(firing.iteration.value()));
    }
  }
  if (p.fired > 0) p.done = p.is_spent();
}

bool chaos_schedule::empty() const {
  const std::lock_guard lock{mutex_};
  return std::ranges::all_of(plans_,
                             [](const plan& p) { return p.entry.kind == chaos_kind::poison; });
}

std::vector<due_fault> chaos_schedule::due_at_once() {
  const std::lock_guard lock{mutex_};
  std::vector<due_fault> faults;
  for (std::size_t entry = 0; entry < plans_.size(); ++entry) {
    auto& p = plans_[entry];
    if (p.done || !p.at_once()) continue;
    faults.push_back({entry, fault_of(p, {})});
    advance(p, {}, {});
  }
  return faults;
}

std::vector<due_fault> chaos_schedule::due(iteration_id committed, time_point now) {
  const std::lock_guard lock{mutex_};
  std::vector<due_fault> faults;
  for (std::size_t entry = 0; entry < plans_.size(); ++entry) {
    auto& p = plans_[entry];
    if (!is_due(p, committed, now)) continue;
    faults.push_back({entry, fault_of(p, committed)});
    advance(p, committed, now);
  }
  return faults;
}

chaos_schedule::time_point chaos_schedule::next_due(iteration_id committed, time_point now,
                                                    time_point step) const {
  const std::lock_guard lock{mutex_};
  time_point next = time_point::max();
  for (const auto& p : plans_) next = std::min(next, next_due_of(p, committed, now, step));
  return next;
}

std::vector<std::size_t> chaos_schedule::unfired() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::size_t> entries;
  for (std::size_t entry = 0; entry < plans_.size(); ++entry) {
    const auto& p = plans_[entry];
    if (p.fired == 0 && p.entry.kind != chaos_kind::poison) entries.push_back(entry);
  }
  return entries;
}

chaos_entry chaos_schedule::fault(std::size_t entry, std::uint64_t firing,
                                  iteration_id iteration) const {
  const std::lock_guard lock{mutex_};
  auto fault = plans_.at(entry).entry;
  fault.at_iteration = iteration.value();
  fault.seed += firing;
  return fault;
}

// A new worker comes up when it must, and is told before; there is nothing to be ahead of.
std::uint64_t chaos_schedule::plan::lead() const {
  const bool ahead = is_for_the_worker(entry) && entry.in != chaos_phase::start;
  return ahead ? chaos_schedule::lead : 0;
}

std::uint64_t chaos_schedule::plan::iterations_left(iteration_id committed) const {
  const std::uint64_t reached = committed.value() + lead();
  return reached < next_iteration ? next_iteration - reached : 0;
}

bool chaos_schedule::plan::at_once() const {
  return !entry.at_iteration && !entry.every_iterations && !entry.every && !entry.mtbf;
}

// Having fired so often.
bool chaos_schedule::plan::is_spent() const {
  return at_once() || entry.at_iteration || (entry.max_count > 0 && fired >= entry.max_count);
}

// However far a poll was late.
std::uint64_t chaos_schedule::plan::next_multiple(std::uint64_t past) const {
  const auto step = entry.every_iterations.value_or(1);
  return (past / step + 1) * step;
}

chaos_entry chaos_schedule::fault_of(const plan& p, iteration_id committed) {
  auto fault = p.entry;
  fault.seed += p.fired;
  if (p.at_once()) {
    fault.at_iteration = 0;
    return fault;
  }
  // By the clock: the iteration after the one at work, which nobody has begun.
  fault.at_iteration = p.next_iteration > 0 ? p.next_iteration : committed.value() + 2;
  return fault;
}

bool chaos_schedule::is_due(plan& p, iteration_id committed, time_point now) {
  if (p.done || p.at_once() || committed.value() == 0) return false;
  if (p.next_iteration > 0) return p.iterations_left(committed) == 0;
  if (p.next_time.count() == 0) p.next_time = now + interval(p);
  return now >= p.next_time;
}

chaos_schedule::time_point chaos_schedule::next_due_of(const plan& p, iteration_id committed,
                                                       time_point now, time_point step) {
  if (p.done || p.at_once()) return time_point::max();
  using exact = std::chrono::duration<double, std::nano>;  // which no product overflows
  constexpr exact longest = std::chrono::hours{1};
  const exact left = static_cast<double>(p.iterations_left(committed)) * exact{step};
  return std::max(p.next_time,
                  now + std::chrono::duration_cast<time_point>(std::min(left, longest)));
}

void chaos_schedule::advance(plan& p, iteration_id committed, time_point now) {
  ++p.fired;
  p.done = p.is_spent();
  if (p.entry.every_iterations) {
    p.next_iteration =
        p.next_multiple(std::max(committed.value(), p.lead() > 0 ? p.next_iteration : 0));
  } else if (p.next_iteration == 0) {
    p.next_time = now + interval(p);
  }
}

chaos_schedule::time_point chaos_schedule::interval(plan& p) {
  if (p.entry.every) return *p.entry.every;
  // Exponential by inversion: std::exponential_distribution may differ between libraries.
  const auto uniform = (static_cast<double>(p.random() >> 11) + 0.5) * 0x1p-53;
  const auto mean = static_cast<double>(p.entry.mtbf.value_or(std::chrono::hours{1}).count());
  return time_point{static_cast<std::int64_t>(-mean * std::log(uniform)) + 1};
}

}  // namespace ftrt::actors
