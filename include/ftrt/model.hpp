#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ftrt {

// How the ranks' copies of a buffer are brought together at each iteration.
enum class buffer_policy : std::uint8_t {
  mean,      // running statistics: averaged over micro-batches, in rank order (floating point)
  max,       // counters: the largest (int64)
  constant,  // masks, tables: never changed, only compared
};

struct named_parameter {
  std::string name;  // "fc1.weight"
  at::Tensor tensor;
};

struct named_buffer {
  std::string name;  // "bn1.running_mean"
  at::Tensor tensor;
  buffer_policy policy = buffer_policy::mean;
};

// One micro-batch. `inputs`: first dimension is the sample; `targets`: int64, [samples].
struct batch {
  at::Tensor inputs;
  at::Tensor targets;
};

struct evaluation_sums {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t samples = 0;
};

// A model as the step loop sees it. Lives in a worker, used by its training thread only.
//
// Parameters and buffers are handed out once, then rebound (`set_data`) into the state arena, so a
// model must use these very tensors in every forward and keep no mutable state elsewhere. All
// randomness comes from ATen's default CPU generator, which the loop seeds at each micro-batch.
class model {
 public:
  virtual ~model() = default;

  // In a fixed order, names unique.
  [[nodiscard]] virtual std::vector<named_parameter> parameters() = 0;
  [[nodiscard]] virtual std::vector<named_buffer> buffers() { return {}; }

  // Sum (not mean) of the loss over the samples: a float32 scalar with a graph behind it.
  [[nodiscard]] virtual at::Tensor loss_sum(const batch& samples) = 0;
  // No graph; dropout off, running statistics used and left alone.
  [[nodiscard]] virtual evaluation_sums evaluate(const batch& samples) = 0;
};

// Builds the model of a scenario with initial weights that are a function of `run.seed` alone.
// Throws std::invalid_argument where the scenario's [model] does not make sense.
using model_factory = std::function<std::unique_ptr<model>(const scenario&)>;

// Makes `[model] kind = name` known to this worker. Called before main() by FTRT_REGISTER_MODEL.
void register_model(std::string name, model_factory factory);

}  // namespace ftrt

#define FTRT_REGISTER_MODEL(name, factory)              \
  static const bool ftrt_model_registered_##name = [] { \
    ::ftrt::register_model(#name, factory);             \
    return true;                                        \
  }()
