#pragma once

#include <ftrt/model.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ftrt::models {

// Multi-layer perceptron: linear layers of [model] layers with ReLU (and dropout) between them,
// softmax cross-entropy. Inputs of any shape are flattened.
// Parameters: fc1.weight, fc1.bias, fc2.weight, ...
[[nodiscard]] std::unique_ptr<model> make_mlp(const scenario& values);

// Convolutional network for images: for each of [model] channels a 3x3 convolution (batch norm,
// ReLU, 2x2 max pooling), then dropout and one linear layer. Parameters conv1.weight, conv1.bias,
// bn1.weight, bn1.bias, ..., fc.weight, fc.bias; buffers bn1.running_mean, bn1.running_var (mean),
// bn1.num_batches_tracked (max).
[[nodiscard]] std::unique_ptr<model> make_cnn(const scenario& values);

// The model that [model] kind names: built in, or registered. Throws std::invalid_argument.
[[nodiscard]] std::unique_ptr<model> make_model(const scenario& values);
[[nodiscard]] std::vector<std::string> model_names();

}  // namespace ftrt::models
