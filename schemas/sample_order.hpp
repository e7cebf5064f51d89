#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <vector>

namespace ftrt::data {

// A half-open range of positions or indices.
struct index_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  friend bool operator==(const index_range&, const index_range&) = default;
};

// The samples of one iteration: positions of its epoch's permutation.
struct data_window {
  iteration_id iteration;
  std::uint64_t epoch = 0;     // from 0
  index_range positions;       // at most global_batch; fewer only at the end of an epoch
  bool last_of_epoch = false;  // an epoch ends with this iteration
  std::uint64_t consumed = 0;  // samples of all windows up to and with this one
};

// Who computes what, and when: pure functions of the scenario, without any position to keep.
//
//   sample_schedule plan{60000, 128, 32, last_window::keep};
//   data_window w = plan.window_of(iteration_id{7});
//   index_range mine = share_of(plan.micro_batches(w), rank, world_size);
//   index_range positions = plan.micro_batch(w, mine.begin);
class sample_schedule {
 public:
  // samples >= global_batch > 0, micro_batch > 0.
  sample_schedule(std::uint64_t samples, std::uint64_t global_batch, std::uint64_t micro_batch,
                  last_window last);

  [[nodiscard]] std::uint64_t iterations_per_epoch() const { return per_epoch_; }
  // Samples that one epoch uses: all of them, or whole windows where the last one is dropped.
  [[nodiscard]] std::uint64_t samples_per_epoch() const;
  // iteration >= 1.
  [[nodiscard]] data_window window_of(iteration_id iteration) const;

  [[nodiscard]] std::uint64_t micro_batches(const data_window& window) const;
  // Positions of micro-batch m; the last one of a window may be short.
  [[nodiscard]] index_range micro_batch(const data_window& window, std::uint64_t m) const;

 private:
  std::uint64_t samples_;
  std::uint64_t global_batch_;
  std::uint64_t micro_batch_;
  std::uint64_t per_epoch_;
};

// The contiguous, balanced share of `count` things that rank r of n owns; empty where there are too
// few. All shares together are all things, each once, in rank order.
[[nodiscard]] index_range share_of(std::uint64_t count, rank_id rank, std::uint32_t world_size);

// Sample ids of an epoch in the order of training: a permutation that is a function of (seed,
// epoch) alone; 0, 1, 2, ... without shuffle. samples < 2^32.
[[nodiscard]] std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch,
                                                     std::uint64_t samples, bool shuffle);

}  // namespace ftrt::data
