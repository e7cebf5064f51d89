// Our flat optimizers against PyTorch's own.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <runtime/training/flat_math.hpp>
#include <schemas/random.hpp>

namespace ftrt::training {
namespace {

constexpr std::int64_t size = 64;
constexpr int steps = 50;

std::vector<float> random_values(std::uint64_t key) {
  data::counter_random random{key};
  std::vector<float> values(size);
  for (auto& v : values) v = 2 * random.uniform() - 1;
  return values;
}

// Steps both with the same gradients, compares after each step.
template <class Step>
void compare(torch::optim::Optimizer& theirs, at::Tensor& parameter, Step&& ours) {
  auto mine = random_values(0);
  for (int t = 1; t <= steps; ++t) {
    auto g = random_values(static_cast<std::uint64_t>(t));
    parameter.mutable_grad() = at::from_blob(g.data(), {size}, at::kFloat).clone();
    theirs.step();
    ours(mine, g, static_cast<std::uint64_t>(t));
    const float* expected = parameter.const_data_ptr<float>();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_NEAR(mine[i], expected[i], 1e-6 + 1e-6 * std::abs(expected[i])) << "step " << t;
    }
  }
}

at::Tensor leaf() {
  auto values = random_values(0);
  auto tensor = at::from_blob(values.data(), {size}, at::kFloat).clone();
  return tensor.set_requires_grad(true);
}

TEST(optimizer, sgd_is_pytorchs) {
  struct row {
    double momentum, decay;
    bool nesterov;
  };
  for (const auto& [momentum, decay, nesterov] :
       {row{0, 0, false}, row{0, 0.01, false}, row{0.9, 0, false}, row{0.9, 0.01, true}}) {
    auto parameter = leaf();
    torch::optim::SGD theirs(
        {parameter},
        torch::optim::SGDOptions(0.05).momentum(momentum).weight_decay(decay).nesterov(nesterov));
    std::vector<float> buffer(size);
    const sgd_options options{0.05F, static_cast<float>(momentum), static_cast<float>(decay),
                              nesterov};
    compare(theirs, parameter, [&](std::vector<float>& p, std::vector<float>& g, std::uint64_t) {
      sgd_step(p, g, buffer, 1.0F, options);
    });
  }
}

TEST(optimizer, adamw_is_pytorchs) {
  for (const double decay : {0.0, 0.05}) {
    auto parameter = leaf();
    torch::optim::AdamW theirs({parameter},
                               torch::optim::AdamWOptions(0.01).weight_decay(decay).eps(1e-8));
    std::vector<float> mean(size);
    std::vector<float> square(size);
    const adamw_options options{0.01, 0.9, 0.999, 1e-8, decay};
    compare(theirs, parameter, [&](std::vector<float>& p, std::vector<float>& g, std::uint64_t t) {
      adamw_step(p, g, mean, square, 1.0F, t, options);
    });
  }
}

TEST(optimizer, a_factor_is_a_clipped_gradient) {
  auto p = random_values(0);
  auto q = p;
  auto g = random_values(1);
  std::vector<float> m(size), n(size);
  sgd_step(p, g, m, 0.25F, {0.1F, 0.9F, 0, false});
  for (auto& v : g) v *= 0.25F;
  sgd_step(q, g, n, 1.0F, {0.1F, 0.9F, 0, false});
  EXPECT_EQ(p, q);
}

}  // namespace
}  // namespace ftrt::training
