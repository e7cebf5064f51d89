#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <span>

namespace ftrt::training {

// Arithmetic over flat float ranges: the optimizer's part of an iteration. Element by element in a
// fixed order, without contraction, so that equal inputs give equal bits. No LibTorch.

struct gradient_measure {
  bool found_inf = false;  // an infinity or NaN is in there
  double norm = 0;         // L2, of the unscaled gradients
};

// Multiplies the gradients by inverse_scale in place and measures the result, in one pass.
[[nodiscard]] gradient_measure unscale_and_measure(std::span<float> gradients, float inverse_scale);

// No infinity or NaN in there.
[[nodiscard]] bool all_finite(std::span<const float> values);

// What torch.nn.utils.clip_grad_norm_ multiplies with: min(1, limit / (norm + 1e-6)); 1 for limit
// 0.
[[nodiscard]] float clip_factor(double norm, double limit);

// torch.optim.SGD with dampening 0. `momentum` is read and written only where options.momentum > 0;
// zeros are its first value. Gradients are multiplied by `factor` on the way.
struct sgd_options {
  float lr = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};
void sgd_step(std::span<float> parameters, std::span<const float> gradients,
              std::span<float> momentum, float factor, const sgd_options& options);

// torch.optim.AdamW (Loshchilov and Hutter 2019, decoupled weight decay), without amsgrad.
struct adamw_options {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};
void adamw_step(std::span<float> parameters, std::span<const float> gradients,
                std::span<float> mean, std::span<float> square, float factor,
                std::uint64_t step,  // from 1
                const adamw_options& options);

}  // namespace ftrt::training
