#pragma once

#include <ftrt/scenario.hpp>
#include <runtime/data/dataset.hpp>

namespace ftrt::data {

// A learnable data set without files, a pure function of run.seed: each class has a random
// prototype, a sample is its class's prototype with noise. For tests and benchmarks.
[[nodiscard]] data_splits make_synthetic(const scenario& values);

}  // namespace ftrt::data
