#include <ATen/ops/from_blob.h>

#include <cstring>
#include <runtime/training/tensor_binding.hpp>
#include <stdexcept>
#include <unordered_set>

namespace ftrt::training {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw std::invalid_argument("tensor '" + name + "' " + why);
}

dtype type_of(const std::string& name, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return dtype::f32;
    case at::kDouble:
      return dtype::f64;
    case at::kHalf:
      return dtype::f16;
    case at::kBFloat16:
      return dtype::bf16;
    case at::kLong:
      return dtype::i64;
    case at::kInt:
      return dtype::i32;
    case at::kByte:
      return dtype::u8;
    case at::kBool:
      return dtype::boolean;
    default:
      refuse(name, std::string{"has a dtype that cannot be saved: "} +
                       c10::toString(tensor.scalar_type()));
  }
}

void check_tensor(const std::string& name, const at::Tensor& tensor,
                  std::unordered_set<std::string>& names) {
  if (name.empty()) refuse(name, "has no name");
  if (!names.insert(name).second) refuse(name, "appears twice");
  if (!tensor.defined()) refuse(name, "is undefined");
  if (!tensor.device().is_cpu()) refuse(name, "is not on the CPU");
  if (!tensor.is_contiguous()) refuse(name, "is not contiguous");
}

void check_parameter(const named_parameter& p) {
  if (p.tensor.scalar_type() != at::kFloat) {
    refuse(p.name, std::string{"must be a float32 parameter, found "} +
                       c10::toString(p.tensor.scalar_type()));
  }
  if (!p.tensor.requires_grad() || !p.tensor.is_leaf()) {
    refuse(p.name, "must be a leaf that requires a gradient");
  }
}

void check_buffer(const named_buffer& b) {
  if (b.policy == buffer_policy::mean && b.tensor.scalar_type() != at::kFloat) {
    refuse(b.name, "is averaged, so it must be float32");
  }
  if (b.policy == buffer_policy::max && b.tensor.scalar_type() != at::kLong) {
    refuse(b.name, "is a counter, so it must be int64");
  }
}

template <class Visit>
void for_each(const model_tensors& tensors, const state_map& map, Visit&& visit) {
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    visit(tensors.parameters[i].tensor, map.parameters[i]);
  }
  for (std::size_t i = 0; i < tensors.buffers.size(); ++i) {
    visit(tensors.buffers[i].tensor, map.buffers[i].arena_bytes);
  }
}

}  // namespace

model_tensors tensors_of(model& net) {
  model_tensors tensors{net.parameters(), net.buffers()};
  if (tensors.parameters.empty()) throw std::invalid_argument("the model has no parameters");
  std::unordered_set<std::string> names;
  for (const auto& p : tensors.parameters) {
    check_tensor(p.name, p.tensor, names);
    check_parameter(p);
  }
  for (const auto& b : tensors.buffers) {
    check_tensor(b.name, b.tensor, names);
    check_buffer(b);
  }
  return tensors;
}

std::vector<tensor_shape> parameter_shapes(const model_tensors& tensors) {
  std::vector<tensor_shape> shapes;
  for (const auto& p : tensors.parameters) shapes.push_back({p.name, p.tensor.sizes().vec()});
  return shapes;
}

std::vector<tensor_shape> buffer_shapes(const model_tensors& tensors) {
  std::vector<tensor_shape> shapes;
  for (const auto& b : tensors.buffers) {
    const auto kind = b.policy == buffer_policy::mean  ? buffer_kind::mean
                      : b.policy == buffer_policy::max ? buffer_kind::max
                                                       : buffer_kind::constant;
    shapes.push_back({b.name, b.tensor.sizes().vec(), type_of(b.name, b.tensor), kind});
  }
  return shapes;
}

void copy_values(const model_tensors& tensors, const state_map& map, std::byte* arena) {
  for_each(tensors, map, [arena](const at::Tensor& tensor, std::uint64_t offset) {
    std::memcpy(arena + offset, tensor.const_data_ptr(), tensor.nbytes());
  });
}

void bind_values(const model_tensors& tensors, const state_map& map, std::byte* arena) {
  for_each(tensors, map, [arena](const at::Tensor& tensor, std::uint64_t offset) {
    tensor.set_data(at::from_blob(arena + offset, tensor.sizes(), tensor.scalar_type()));
  });
}

void bind_gradients(const model_tensors& tensors, const state_map& map, std::byte* bucket) {
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const auto& tensor = tensors.parameters[i].tensor;
    tensor.mutable_grad() =
        bucket == nullptr ? at::Tensor{}
                          : at::from_blob(bucket + map.parameters[i], tensor.sizes(), at::kFloat);
  }
}

}  // namespace ftrt::training
