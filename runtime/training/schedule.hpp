#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>

namespace ftrt::training {

// Learning rate of an optimizer step (from 0; skipped iterations do not count, C30): linear warm-up
// over train.warmup_steps, then constant, cosine down to min_lr at total_steps, or a factor every
// decay_every steps. A pure function.
[[nodiscard]] double learning_rate(const scenario& values, std::uint64_t step,
                                   std::uint64_t total_steps);

}  // namespace ftrt::training
