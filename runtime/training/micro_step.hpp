#pragma once

#include <cstdint>
#include <ftrt/model.hpp>
#include <runtime/data/dataset.hpp>
#include <span>

namespace ftrt::training {

// What a micro-batch's randomness is for; keeps the streams apart.
enum class random_purpose : std::uint64_t { training = 1, evaluation = 2, warm_up = 3 };

// Seeds ATen's default CPU generator as a pure function of these four: there is no random state to
// save, and none to lose (DESIGN.md, laws of recovery). 1.3 us.
void seed_generator(std::uint64_t seed, std::uint64_t iteration, std::uint64_t micro_batch,
                    random_purpose purpose);

// Reads samples straight into a fresh input tensor.
[[nodiscard]] batch load_batch(const data::dataset& samples, const data::sample_format& format,
                               std::span<const std::uint32_t> ids);

// Forward and backward of one micro-batch in the scenario's precision; gradients are accumulated.
// The loss is multiplied by `factor` (loss scale / samples of the window) for backward; the plain
// loss sum is returned. Throws what the model throws.
double forward_backward(model& net, const batch& samples, amp_mode amp, double factor);

}  // namespace ftrt::training
