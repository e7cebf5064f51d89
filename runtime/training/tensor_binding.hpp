#pragma once

#include <cstddef>
#include <ftrt/model.hpp>
#include <runtime/training/state_map.hpp>
#include <vector>

namespace ftrt::training {

// The tensors of a model, and the memory that they stand in.
struct model_tensors {
  std::vector<named_parameter> parameters;
  std::vector<named_buffer> buffers;
};

// Asks the model for its tensors and refuses (std::invalid_argument, naming the tensor) what the
// step loop cannot carry: a parameter that is no float32 leaf on the CPU, a mean buffer that is not
// float32, a counter that is not int64, a name that is empty or not unique, no parameter at all.
[[nodiscard]] model_tensors tensors_of(model& net);
[[nodiscard]] std::vector<tensor_shape> parameter_shapes(const model_tensors& tensors);
[[nodiscard]] std::vector<tensor_shape> buffer_shapes(const model_tensors& tensors);

// Copies the tensors' present values into an arena.
void copy_values(const model_tensors& tensors, const state_map& map, std::byte* arena);

// Makes the tensors views of an arena, so that the model computes on it in place.
void bind_values(const model_tensors& tensors, const state_map& map, std::byte* arena);
// Makes the gradients views of bucket memory; autograd then accumulates into it. nullptr: no
// gradients.
void bind_gradients(const model_tensors& tensors, const state_map& map, std::byte* bucket);

}  // namespace ftrt::training
