#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include <array>
#include <runtime/models/layers.hpp>
#include <runtime/models/models.hpp>
#include <stdexcept>

namespace ftrt::models {
namespace {

class mlp final : public model {
 public:
  explicit mlp(const scenario& values) : dropout_(values.model.dropout) {
    const auto& widths = values.model.layers;
    if (widths.size() < 2) {
      throw std::invalid_argument("an mlp needs at least two widths in model.layers, found " +
                                  std::to_string(widths.size()));
    }
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      const auto prefix = "fc" + std::to_string(i + 1);
      const std::array shape{widths[i + 1], widths[i]};
      add(prefix + ".weight", values.run.seed, shape, widths[i]);
      add(prefix + ".bias", values.run.seed, std::span{shape}.first(1), widths[i]);
    }
  }

  [[nodiscard]] std::vector<named_parameter> parameters() override { return parameters_; }

  [[nodiscard]] at::Tensor loss_sum(const batch& samples) override {
    return cross_entropy_sum(forward(samples.inputs, true), samples.targets);
  }

  [[nodiscard]] evaluation_sums evaluate(const batch& samples) override {
    const at::NoGradGuard no_grad;
    return score(forward(samples.inputs, false), samples.targets);
  }

 private:
  void add(const std::string& name, std::uint64_t seed, std::span<const std::int64_t> shape,
           std::int64_t fan_in) {
    parameters_.push_back({name, uniform_parameter(seed, name, shape, fan_in)});
  }

  at::Tensor forward(const at::Tensor& inputs, bool training) {
    auto x = inputs.reshape({inputs.size(0), -1});
    for (std::size_t i = 0; i < parameters_.size(); i += 2) {
      if (i > 0) {
        x = at::relu(x);
        if (dropout_ > 0) x = at::dropout(x, dropout_, training);
      }
      x = at::linear(x, parameters_[i].tensor, parameters_[i + 1].tensor);
    }
    return x;
  }

  double dropout_;
  std::vector<named_parameter> parameters_;
};

}  // namespace

std::unique_ptr<model> make_mlp(const scenario& values) {
  return std::make_unique<mlp>(values);
}

}  // namespace ftrt::models
