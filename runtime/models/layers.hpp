#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ftrt/model.hpp>
#include <span>
#include <string_view>

namespace ftrt::models {

// A float32 leaf filled uniformly in +-1/sqrt(fan_in), which is what PyTorch's Linear and Conv2d
// start with (kaiming_uniform, a = sqrt 5). A function of (seed, name) alone; ATen's generator is
// not touched, so that a zygote stays free of it.
[[nodiscard]] at::Tensor uniform_parameter(std::uint64_t seed, std::string_view name,
                                           std::span<const std::int64_t> shape,
                                           std::int64_t fan_in);
[[nodiscard]] at::Tensor constant_parameter(std::int64_t size, float value);
[[nodiscard]] at::Tensor constant_buffer(std::int64_t size, float value);
[[nodiscard]] at::Tensor zero_counter();  // int64, no dimension

// Softmax cross-entropy in float32, whatever autocast made of the logits.
[[nodiscard]] at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets);
[[nodiscard]] evaluation_sums score(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace ftrt::models
