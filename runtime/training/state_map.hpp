#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/scenario.hpp>
#include <runtime/communicator/communicator.hpp>
#include <schemas/state_layout.hpp>
#include <span>
#include <string>
#include <vector>

namespace ftrt::training {

// How a buffer crosses ranks; ftrt::buffer_policy without LibTorch's headers.
enum class buffer_kind : std::uint8_t { mean, max, constant };

// What a model brings: a float32 parameter, or a buffer.
struct tensor_shape {
  std::string name;
  std::vector<std::int64_t> shape;
  dtype type = dtype::f32;
  buffer_kind kind = buffer_kind::mean;  // buffers only
};

// Whole-number scalars of the state, and the options that must be equal where a state is loaded.
enum class whole : std::uint8_t {
  iteration = 0,
  optimizer_step,
  epoch,          // complete epochs
  global_sample,  // samples that the committed iterations used
  evaluated_iteration,
  growth_tracker,
  // options:
  seed,
  global_batch,
  micro_batch,
  nesterov,
  count_,
};
enum class real : std::uint8_t {
  last_loss = 0,
  test_accuracy,  // NaN: never evaluated
  test_loss,
  loss_scale,
  // options:
  lr,
  momentum,
  weight_decay,
  beta1,
  beta2,
  eps,
  count_,
};

struct buffer_place {
  std::uint64_t arena_bytes = 0;   // offset in the arena
  std::uint64_t bucket_bytes = 0;  // offset in the bucket memory; mean and max only
  std::uint64_t count = 0;         // elements
  std::uint64_t size_bytes = 0;
  buffer_kind kind = buffer_kind::mean;
};

// Where everything is, in the state arena and in the bucket memory. Built once for a model.
//
//   arena:   parameters | buffers | optimizer state, one block a kind | scalars
//   bucket:  gradients, at the offsets of their parameters | mean buffers | counters
//
// So parameters, gradients and each kind of optimizer state are flat float ranges of one length,
// in which the same index means the same element; the gaps between tensors are zero and stay so.
struct state_map {
  state_layout layout;
  std::uint64_t parameter_bytes = 0;      // of each flat range, gaps included
  std::vector<std::uint64_t> parameters;  // offset of each parameter
  std::vector<std::uint64_t> optimizer;   // offset of each kind of optimizer state
  std::vector<buffer_place> buffers;
  std::uint64_t buffers_begin = 0;  // all buffers lie in here
  std::uint64_t buffers_end = 0;
  std::vector<std::uint64_t> wholes;  // offset by whole
  std::vector<std::uint64_t> reals;   // offset by real
  bucket_region means;                // f32; count 0: none
  bucket_region counters;             // i64; count 0: none
  std::uint64_t bucket_bytes = 0;
};

[[nodiscard]] state_map map_state(const std::vector<tensor_shape>& parameters,
                                  const std::vector<tensor_shape>& buffers,
                                  optimizer_kind optimizer);

// One arena seen through its map. A view: whoever owns the memory outlives it. The memory is
// writable by the owner only.
class state_view {
 public:
  state_view() = default;
  state_view(const state_map& map, std::byte* base) : map_(&map), base_(base) {}

  [[nodiscard]] const state_map& map() const { return *map_; }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {base_, map_->layout.arena_bytes}; }
  [[nodiscard]] std::span<float> parameters() const { return floats(0); }
  [[nodiscard]] std::span<float> optimizer(std::size_t kind) const {
    return floats(map_->optimizer.at(kind));
  }
  [[nodiscard]] std::span<std::byte> buffers() const {
    return {base_ + map_->buffers_begin, map_->buffers_end - map_->buffers_begin};
  }
  [[nodiscard]] std::int64_t& at(whole name) const {
    return *reinterpret_cast<std::int64_t*>(base_ + map_->wholes[static_cast<std::size_t>(name)]);
  }
  [[nodiscard]] double& at(real name) const {
    return *reinterpret_cast<double*>(base_ + map_->reals[static_cast<std::size_t>(name)]);
  }

 private:
  [[nodiscard]] std::span<float> floats(std::uint64_t offset) const {
    return {reinterpret_cast<float*>(base_ + offset), map_->parameter_bytes / sizeof(float)};
  }
  const state_map* map_ = nullptr;
  std::byte* base_ = nullptr;
};

// Scalars of an untrained state: counters 0, the scenario's options.
void write_initial_scalars(const state_view& state, const scenario& values);
// Refuses a state whose options are not the scenario's, naming the first that differs (C20).
[[nodiscard]] result<void> check_options(const state_view& state, const scenario& values);

}  // namespace ftrt::training
