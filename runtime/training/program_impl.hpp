#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <runtime/data/dataset.hpp>
#include <runtime/training/micro_step.hpp>
#include <runtime/training/state_map.hpp>
#include <runtime/training/tensor_binding.hpp>
#include <runtime/training/trainer.hpp>
#include <schemas/sample_order.hpp>

namespace ftrt {

// Memory on a tensor's boundary, zero-filled.
class aligned_memory {
 public:
  aligned_memory() = default;
  explicit aligned_memory(std::size_t size_bytes);
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct freed {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, freed> memory_;
  std::size_t size_ = 0;
};

// Binds ATen, OpenMP and MKL to the calling thread. OMP_NUM_THREADS=1 before exec does the same for
// threads that nobody thought of; results and fork() depend on it, so it is not left to chance.
void use_one_thread();

[[nodiscard]] std::int64_t monotonic_ns();

struct training_program::impl {
  scenario values;
  data::data_splits data;
  data::sample_format format;
  std::optional<data::sample_schedule> schedule;
  std::uint64_t total_iterations = 0;
  std::unique_ptr<model> net;
  training::model_tensors tensors;
  training::state_map map;
  std::uint64_t digest_every = 0;  // as measured by the warm-up; 0: not measured
  aligned_memory initial;          // the arena of an untrained model; never written again

  // Model and tensors onto an arena (and gradients onto bucket memory, or none).
  void bind(std::byte* arena, std::byte* bucket);
};

}  // namespace ftrt
