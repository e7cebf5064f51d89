#include <ATen/core/Reduction.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <runtime/models/layers.hpp>
#include <schemas/random.hpp>

namespace ftrt::models {
namespace {

std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = data::hash_of(seed, name.size());
  for (const char c : name) key = data::hash_of(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace

at::Tensor uniform_parameter(std::uint64_t seed, std::string_view name,
                             std::span<const std::int64_t> shape, std::int64_t fan_in) {
  auto tensor = at::empty(at::IntArrayRef(shape.data(), shape.size()), at::kFloat);
  const float bound = 1.0F / std::sqrt(static_cast<float>(fan_in));
  data::counter_random random{key_of(seed, name)};
  float* values = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = (2 * random.uniform() - 1) * bound;
  }
  tensor.set_requires_grad(true);
  return tensor;
}

at::Tensor constant_parameter(std::int64_t size, float value) {
  auto tensor = at::full({size}, value, at::kFloat);
  tensor.set_requires_grad(true);
  return tensor;
}

at::Tensor constant_buffer(std::int64_t size, float value) {
  return at::full({size}, value, at::kFloat);
}

at::Tensor zero_counter() {
  return at::zeros({}, at::kLong);
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::Sum);
}

evaluation_sums score(const at::Tensor& logits, const at::Tensor& targets) {
  evaluation_sums sums;
  sums.loss_sum = cross_entropy_sum(logits, targets).item<float>();
  sums.correct = at::eq(at::argmax(logits, 1), targets).sum().item<std::int64_t>();
  sums.samples = targets.size(0);
  return sums;
}

}  // namespace ftrt::models
