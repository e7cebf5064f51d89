#include <algorithm>
#include <ftrt/error.hpp>
#include <limits>
#include <numeric>
#include <schemas/random.hpp>
#include <schemas/sample_order.hpp>
#include <utility>

namespace ftrt::data {
namespace {

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

// Keeps the order's words apart from every other use of the same seed.
constexpr std::uint64_t order_purpose = 0x6f72646572ULL;

}  // namespace

sample_schedule::sample_schedule(std::uint64_t samples, std::uint64_t global_batch,
                                 std::uint64_t micro_batch, last_window last)
    : samples_(samples), global_batch_(global_batch), micro_batch_(micro_batch) {
  FTRT_ASSERT(global_batch > 0 && micro_batch > 0 && samples >= global_batch);
  per_epoch_ = last == last_window::keep ? ceil_div(samples, global_batch) : samples / global_batch;
}

std::uint64_t sample_schedule::samples_per_epoch() const {
  return std::min(samples_, per_epoch_ * global_batch_);
}

data_window sample_schedule::window_of(iteration_id iteration) const {
  FTRT_ASSERT(iteration.value() > 0);
  const std::uint64_t index = iteration.value() - 1;
  const std::uint64_t in_epoch = index % per_epoch_;
  data_window window;
  window.iteration = iteration;
  window.epoch = index / per_epoch_;
  window.positions.begin = in_epoch * global_batch_;
  window.positions.end = std::min(samples_, window.positions.begin + global_batch_);
  window.last_of_epoch = in_epoch + 1 == per_epoch_;
  window.consumed = window.epoch * samples_per_epoch() + window.positions.end;
  return window;
}

std::uint64_t sample_schedule::micro_batches(const data_window& window) const {
  return ceil_div(window.positions.size(), micro_batch_);
}

index_range sample_schedule::micro_batch(const data_window& window, std::uint64_t m) const {
  FTRT_ASSERT(m < micro_batches(window));
  const std::uint64_t begin = window.positions.begin + m * micro_batch_;
  return {begin, std::min(begin + micro_batch_, window.positions.end)};
}

index_range share_of(std::uint64_t count, rank_id rank, std::uint32_t world_size) {
  FTRT_ASSERT(rank.value() < world_size);
  const std::uint64_t r = rank.value();
  return {count * r / world_size, count * (r + 1) / world_size};
}

std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch,
                                       std::uint64_t samples, bool shuffle) {
  FTRT_ASSERT(samples <= std::numeric_limits<std::uint32_t>::max());
  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0U);
  if (!shuffle) return order;
  counter_random random{hash_of(seed, epoch, order_purpose)};
  for (std::uint64_t i = samples; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace ftrt::data
