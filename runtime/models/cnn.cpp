#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <array>
#include <runtime/data/dataset.hpp>
#include <runtime/models/layers.hpp>
#include <runtime/models/models.hpp>
#include <stdexcept>

namespace ftrt::models {
namespace {

class cnn final : public model {
 public:
  explicit cnn(const scenario& values)
      : seed_(values.run.seed),
        dropout_(values.model.dropout),
        batch_norm_(values.model.batch_norm) {
    const auto format = data::format_of(values);
    if (values.model.channels.empty()) {
      throw std::invalid_argument("a cnn needs at least one entry in model.channels");
    }
    auto side = format.shape.back();
    auto channels = format.shape.front();
    for (const auto next : values.model.channels) {
      if (side < 2)
        throw std::invalid_argument("model.channels has more stages than an image of " +
                                    std::to_string(format.shape.back()) + " pixels can be halved");
      add_stage(channels, next);
      channels = next;
      side /= 2;
    }
    const auto features = channels * side * side;
    add("fc.weight", std::array{format.classes, features}, features);
    add("fc.bias", std::array{format.classes}, features);
  }

  [[nodiscard]] std::vector<named_parameter> parameters() override { return parameters_; }
  [[nodiscard]] std::vector<named_buffer> buffers() override { return buffers_; }

  [[nodiscard]] at::Tensor loss_sum(const batch& samples) override {
    return cross_entropy_sum(forward(samples.inputs, true), samples.targets);
  }

  [[nodiscard]] evaluation_sums evaluate(const batch& samples) override {
    const at::NoGradGuard no_grad;
    return score(forward(samples.inputs, false), samples.targets);
  }

 private:
  struct stage {
    at::Tensor weight, bias;                      // convolution
    at::Tensor scale, shift, mean, var, batches;  // batch norm; undefined without
  };

  at::Tensor add(const std::string& name, std::span<const std::int64_t> shape,
                 std::int64_t fan_in) {
    parameters_.push_back({name, uniform_parameter(seed_, name, shape, fan_in)});
    return parameters_.back().tensor;
  }

  void add_stage(std::int64_t in, std::int64_t out) {
    const auto number = std::to_string(stages_.size() + 1);
    stage s;
    s.weight =
        add("conv" + number + ".weight", std::array{out, in, kernel, kernel}, in * kernel * kernel);
    s.bias = add("conv" + number + ".bias", std::array{out}, in * kernel * kernel);
    if (batch_norm_) add_batch_norm("bn" + number, out, s);
    stages_.push_back(std::move(s));
  }

  void add_batch_norm(const std::string& name, std::int64_t channels, stage& s) {
    s.scale = constant_parameter(channels, 1);
    s.shift = constant_parameter(channels, 0);
    s.mean = constant_buffer(channels, 0);
    s.var = constant_buffer(channels, 1);
    s.batches = zero_counter();
    parameters_.push_back({name + ".weight", s.scale});
    parameters_.push_back({name + ".bias", s.shift});
    buffers_.push_back({name + ".running_mean", s.mean, buffer_policy::mean});
    buffers_.push_back({name + ".running_var", s.var, buffer_policy::mean});
    buffers_.push_back({name + ".num_batches_tracked", s.batches, buffer_policy::max});
  }

  at::Tensor forward(const at::Tensor& inputs, bool training) {
    auto x = inputs;
    for (const auto& s : stages_) {
      x = at::conv2d(x, s.weight, s.bias, /*stride=*/1, /*padding=*/kernel / 2);
      if (batch_norm_) {
        x = at::batch_norm(x, s.scale, s.shift, s.mean, s.var, training, /*momentum=*/0.1,
                           /*eps=*/1e-5, /*cudnn_enabled=*/false);
        if (training) s.batches.add_(1);
      }
      x = at::max_pool2d(at::relu(x), 2);
    }
    x = x.flatten(1);
    if (dropout_ > 0) x = at::dropout(x, dropout_, training);
    const auto count = parameters_.size();
    return at::linear(x, parameters_[count - 2].tensor, parameters_[count - 1].tensor);
  }

  static constexpr std::int64_t kernel = 3;
  std::uint64_t seed_;
  double dropout_;
  bool batch_norm_;
  std::vector<named_parameter> parameters_;
  std::vector<named_buffer> buffers_;
  std::vector<stage> stages_;
};

}  // namespace

std::unique_ptr<model> make_cnn(const scenario& values) {
  return std::make_unique<cnn>(values);
}

}  // namespace ftrt::models
