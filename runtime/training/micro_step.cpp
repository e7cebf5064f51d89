#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <mutex>
#include <runtime/training/autocast.hpp>
#include <runtime/training/micro_step.hpp>
#include <schemas/random.hpp>
#include <stdexcept>

namespace ftrt::training {

void seed_generator(std::uint64_t seed, std::uint64_t iteration, std::uint64_t micro_batch,
                    random_purpose purpose) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const auto word =
      data::hash_of(seed, iteration, micro_batch, static_cast<std::uint64_t>(purpose));
  const std::lock_guard lock(generator.mutex());
  generator.unsafeGetGeneratorImpl()->set_current_seed(word);
}

batch load_batch(const data::dataset& samples, const data::sample_format& format,
                 std::span<const std::uint32_t> ids) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(ids.size())};
  shape.insert(shape.end(), format.shape.begin(), format.shape.end());
  batch loaded{at::empty(shape, at::kFloat),
               at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong)};
  samples.gather(
      ids,
      {loaded.inputs.mutable_data_ptr<float>(), static_cast<std::size_t>(loaded.inputs.numel())},
      {loaded.targets.mutable_data_ptr<std::int64_t>(), ids.size()});
  return loaded;
}

double forward_backward(model& net, const batch& samples, amp_mode amp, double factor) {
  at::Tensor loss;
  {
    const autocast_scope precision{amp};
    loss = net.loss_sum(samples);
  }
  if (!loss.defined() || loss.numel() != 1 || loss.scalar_type() != at::kFloat ||
      !loss.requires_grad()) {
    throw std::invalid_argument("loss_sum must return a float32 scalar with a graph behind it");
  }
  at::mul(loss, factor).backward();
  return static_cast<double>(*loss.const_data_ptr<float>());
}

}  // namespace ftrt::training
