#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/scenario.hpp>
#include <runtime/data/dataset.hpp>

namespace ftrt::data {

inline constexpr std::int64_t mnist_side = 28;
inline constexpr std::int64_t mnist_classes = 10;
// Mean and standard deviation of MNIST's training pixels in [0, 1].
inline constexpr float mnist_mean = 0.1307F;
inline constexpr float mnist_deviation = 0.3081F;

// Opens the four IDX files of MNIST (or a set of the same form) in `folder`: "train-images",
// "train-labels", "t10k-images", "t10k-labels", each as "-idx3-ubyte" or ".idx3-ubyte" (labels
// idx1), plain or with ".gz". Checks every file whole and reports all faults at once (C31).
[[nodiscard]] checked<data_splits> open_mnist(const std::filesystem::path& folder);

}  // namespace ftrt::data
