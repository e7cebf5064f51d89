#include <algorithm>
#include <cmath>
#include <numbers>
#include <runtime/training/schedule.hpp>

namespace ftrt::training {

double learning_rate(const scenario& values, std::uint64_t step, std::uint64_t total_steps) {
  const auto& train = values.train;
  if (step < train.warmup_steps) {
    return train.lr * static_cast<double>(step + 1) / static_cast<double>(train.warmup_steps);
  }
  const std::uint64_t since = step - train.warmup_steps;
  switch (train.schedule) {
    case schedule_kind::constant:
      return train.lr;
    case schedule_kind::step:
      if (train.decay_every == 0) return train.lr;
      return train.lr *
             std::pow(train.decay_factor, static_cast<double>(since / train.decay_every));
    case schedule_kind::cosine: {
      const double length = total_steps > train.warmup_steps
                                ? static_cast<double>(total_steps - train.warmup_steps)
                                : 1.0;
      const double done = std::min(1.0, static_cast<double>(since) / length);
      return train.min_lr +
             (train.lr - train.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
    }
  }
  return train.lr;
}

}  // namespace ftrt::training
