#pragma once

#include <chrono>
#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <mutex>
#include <random>
#include <vector>

namespace ftrt::actors {

// The worker does it to itself, by order (protocol::injure).
[[nodiscard]] bool is_for_the_worker(const chaos_entry& entry);

// When the scenario's faults are due. A fault fires once for each time that it is due: an iteration
// that comes again after a rollback fires nothing again. Everything random follows from the
// entries' seeds. Poison is none of them: a batch is poisoned for whoever computes it, and workers
// read that in the scenario themselves. Any thread; outlives the chaos actor.
class chaos_schedule {
 public:
  using time_point = std::chrono::nanoseconds;  // monotonic

  chaos_schedule(std::vector<chaos_entry> entries, std::uint32_t world_size);

  // What a worker does to itself happens at one exact iteration, so that it is due this many
  // iterations before it; what is fired says in at_iteration when it is to happen.
  static constexpr std::uint64_t lead = 500;

  // The faults that are due, now that `committed` is the newest iteration. Time-based entries begin
  // to count at the first call with committed > 0.
  [[nodiscard]] std::vector<chaos_entry> due(iteration_id committed, time_point now);

  [[nodiscard]] bool empty() const { return plans_.empty(); }

 private:
  struct plan {
    chaos_entry entry;
    std::mt19937_64 random;
    std::uint64_t next_iteration = 0;  // 0: not by iteration
    time_point next_time{0};           // 0: not yet begun, or not by time
    std::uint64_t fired = 0;
    bool done = false;
    [[nodiscard]] std::uint64_t lead() const;
  };
  [[nodiscard]] static chaos_entry fault_of(const plan& p, iteration_id committed);
  [[nodiscard]] static bool is_due(plan& p, iteration_id committed, time_point now);
  static void advance(plan& p, iteration_id committed, time_point now);
  [[nodiscard]] static time_point interval(plan& p);

  std::mutex mutex_;
  std::vector<plan> plans_;
};

}  // namespace ftrt::actors
