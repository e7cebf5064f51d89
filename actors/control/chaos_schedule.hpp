#pragma once

#include <actors/control/chaos_ledger.hpp>
#include <chrono>
#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <mutex>
#include <random>
#include <vector>

namespace ftrt::actors {

// One fault to be caused now.
struct due_fault {
  std::size_t entry = 0;  // of the scenario's [[chaos]]
  chaos_entry what;       // at_iteration: when a worker is to do it to itself; 0: the first time
};

// When the scenario's faults are due. A fault fires once for each time that it is due: an iteration
// that comes again after a rollback fires nothing again. Everything random follows from the
// entries' seeds. Poison is none of them: a batch is poisoned for whoever computes it, and workers
// read that in the scenario themselves. Any thread; outlives the chaos actor.
class chaos_schedule {
 public:
  using time_point = std::chrono::nanoseconds;  // monotonic

  // `history`: what was caused before the run was resumed, one for each entry; or empty.
  chaos_schedule(std::vector<chaos_entry> entries, std::uint32_t world_size,
                 const std::vector<fault_history>& history = {});

  // What a worker does to itself happens at one exact iteration, so that it is due this many
  // iterations before it; what is fired says in at_iteration when it is to happen.
  static constexpr std::uint64_t lead = 500;

  // Those that say no time, once. They are for workers.
  [[nodiscard]] std::vector<due_fault> due_at_once();
  // The faults that are due, now that `committed` is the newest iteration. Time-based entries begin
  // to count at the first call with committed > 0.
  [[nodiscard]] std::vector<due_fault> due(iteration_id committed, time_point now);

  // When the next fault will be due if an iteration takes `step`, never before `now`; the largest
  // time: none ever will be.
  [[nodiscard]] time_point next_due(iteration_id committed, time_point now, time_point step) const;

  // Entries that have not fired once.
  [[nodiscard]] std::vector<std::size_t> unfired() const;
  // The fault that the `firing`th firing of an entry came to, meant for that iteration.
  [[nodiscard]] chaos_entry fault(std::size_t entry, std::uint64_t firing,
                                  iteration_id iteration) const;

  // There is nothing that it will ever call due.
  [[nodiscard]] bool empty() const;

 private:
  struct plan {
    chaos_entry entry;
    std::mt19937_64 random;
    std::uint64_t next_iteration = 0;  // 0: not by iteration
    time_point next_time{0};           // 0: not yet begun, or not by time
    std::uint64_t fired = 0;
    bool done = false;
    [[nodiscard]] std::uint64_t lead() const;
    // Iterations from here until it is due; 0: it is, or goes by the clock.
    [[nodiscard]] std::uint64_t iterations_left(iteration_id committed) const;
    [[nodiscard]] bool at_once() const;  // says no time
    [[nodiscard]] bool is_spent() const;
    [[nodiscard]] std::uint64_t next_multiple(std::uint64_t past) const;
  };
  static void take_up(plan& p, const fault_history& history);
  [[nodiscard]] static chaos_entry fault_of(const plan& p, iteration_id committed);
  [[nodiscard]] static bool is_due(plan& p, iteration_id committed, time_point now);
  [[nodiscard]] static time_point next_due_of(const plan& p, iteration_id committed, time_point now,
                                              time_point step);
  static void advance(plan& p, iteration_id committed, time_point now);
  [[nodiscard]] static time_point interval(plan& p);

  mutable std::mutex mutex_;
  std::vector<plan> plans_;
};

}  // namespace ftrt::actors
