#include <actors/control/chaos_schedule.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

namespace ftrt::actors {

chaos_schedule::chaos_schedule(std::vector<chaos_entry> entries, std::uint32_t world_size) {
  for (auto& entry : entries) {
    if (entry.kind == chaos_kind::poison) continue;
    plan p;
    p.random.seed(entry.seed);
    p.next_iteration = entry.at_iteration.value_or(entry.every_iterations.value_or(0));
    if (entry.all_ranks) {
      entry.ranks.clear();
      for (std::uint32_t rank = 0; rank < world_size; ++rank) entry.ranks.push_back(rank);
    }
    p.entry = std::move(entry);
    plans_.push_back(std::move(p));
  }
}

std::vector<chaos_entry> chaos_schedule::due(iteration_id committed, time_point now) {
  const std::lock_guard lock{mutex_};
  std::vector<chaos_entry> faults;
  for (auto& p : plans_) {
    if (!is_due(p, committed, now)) continue;
    faults.push_back(fault_of(p, committed));
    advance(p, committed, now);
  }
  return faults;
}

bool is_for_the_worker(const chaos_entry& entry) {
  return entry.in != chaos_phase::any || entry.kind == chaos_kind::nan ||
         entry.kind == chaos_kind::flip_bit || entry.kind == chaos_kind::slow;
}

// A new worker comes up when it must, and is told before; there is nothing to be ahead of.
std::uint64_t chaos_schedule::plan::lead() const {
  const bool ahead = is_for_the_worker(entry) && entry.in != chaos_phase::start;
  return ahead ? chaos_schedule::lead : 0;
}

chaos_entry chaos_schedule::fault_of(const plan& p, iteration_id committed) {
  auto fault = p.entry;
  // By the clock: the iteration after the one at work, which nobody has begun.
  fault.at_iteration = p.next_iteration > 0 ? p.next_iteration : committed.value() + 2;
  fault.seed += p.fired;
  return fault;
}

bool chaos_schedule::is_due(plan& p, iteration_id committed, time_point now) {
  if (p.done || committed.value() == 0) return false;
  if (p.next_iteration > 0) return committed.value() + p.lead() >= p.next_iteration;
  if (p.next_time.count() == 0) p.next_time = now + interval(p);
  return now >= p.next_time;
}

void chaos_schedule::advance(plan& p, iteration_id committed, time_point now) {
  ++p.fired;
  p.done =
      p.entry.at_iteration.has_value() || (p.entry.max_count > 0 && p.fired >= p.entry.max_count);
  if (p.entry.every_iterations) {
    // The next multiple beyond, however far a poll was late.
    const auto step = *p.entry.every_iterations;
    const auto past = std::max(committed.value(), p.lead() > 0 ? p.next_iteration : 0);
    p.next_iteration = (past / step + 1) * step;
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
