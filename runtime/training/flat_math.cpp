#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <ftrt/error.hpp>
#include <runtime/training/flat_math.hpp>

namespace ftrt::training {

gradient_measure unscale_and_measure(std::span<float> gradients, float inverse_scale) {
  // Eight sums side by side: one after the other, each addition would wait for the one before.
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums{};
  FTRT_ASSERT(gradients.size() % lanes == 0);  // gaps included, a multiple of a cache line
  for (std::size_t i = 0; i < gradients.size(); i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) {
      const float g = gradients[i + j] * inverse_scale;
      gradients[i + j] = g;
      sums[j] += static_cast<double>(g) * static_cast<double>(g);
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  // Squares of finite floats cannot overflow a double, so the total tells of any that was not.
  return {!std::isfinite(total), std::sqrt(total)};
}

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7f800000U;
  std::uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent ? 1U : 0U;
  }
  return found == 0;
}

float clip_factor(double norm, double limit) {
  if (limit <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

void sgd_step(std::span<float> parameters, std::span<const float> gradients,
              std::span<float> momentum, float factor, const sgd_options& options) {
  FTRT_ASSERT(gradients.size() == parameters.size() && momentum.size() == parameters.size());
  const auto [lr, mu, decay, nesterov] = options;
  float* p = parameters.data();
  const float* g = gradients.data();
  float* m = momentum.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float d = g[i] * factor;
    d += decay * p[i];
    if (mu != 0) {
      m[i] = mu * m[i] + d;
      d = nesterov ? d + mu * m[i] : m[i];
    }
    p[i] -= lr * d;
  }
}

void adamw_step(std::span<float> parameters, std::span<const float> gradients,
                std::span<float> mean, std::span<float> square, float factor, std::uint64_t step,
                const adamw_options& options) {
  FTRT_ASSERT(gradients.size() == parameters.size() && mean.size() == parameters.size() &&
              square.size() == parameters.size() && step > 0);
  const auto t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(options.beta1, t);
  const double correction2 = std::sqrt(1 - std::pow(options.beta2, t));
  const auto keep = static_cast<float>(1 - options.lr * options.weight_decay);
  const auto step_size = static_cast<float>(options.lr / correction1);
  const auto root = static_cast<float>(correction2);
  const auto b1 = static_cast<float>(1 - options.beta1);
  const auto b2 = static_cast<float>(options.beta2);
  const auto c2 = static_cast<float>(1 - options.beta2);
  const auto eps = static_cast<float>(options.eps);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float d = gradients[i] * factor;
    const float p = parameters[i] * keep;
    mean[i] += b1 * (d - mean[i]);
    square[i] = b2 * square[i] + c2 * d * d;
    parameters[i] = p - step_size * mean[i] / (std::sqrt(square[i]) / root + eps);
  }
}

}  // namespace ftrt::training
