#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <ctime>
#include <exception>
#include <functional>
#include <runtime/training/gradient_reducer.hpp>
#include <utility>

namespace ftrt::training {
namespace {

using torch::autograd::variable_list;

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class call_after final : public torch::autograd::FunctionPostHook {
 public:
  explicit call_after(std::function<void()> call) : call_(std::move(call)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

// A tensor holds its accumulator weakly: without this reference the hooks would be gone after the
// first backward.
struct gradient_reducer::hooks {
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;
};

gradient_reducer::gradient_reducer(const model_tensors& tensors, bucket_plan plan)
    : plan_(std::move(plan)), hooks_(std::make_unique<hooks>()) {
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    auto node = torch::autograd::impl::grad_accumulator(tensors.parameters[i].tensor);
    node->add_post_hook(std::make_unique<call_after>([this, i] { parameter_ready(i); }));
    hooks_->accumulators.push_back(std::move(node));
  }
}

gradient_reducer::~gradient_reducer() = default;

void gradient_reducer::arm(communicator& comm) {
  comm_ = &comm;
  missing_ = plan_.parameters;
  next_ = 0;
  spent_ns_ = 0;
  status_ = {};
}

void gradient_reducer::disarm() {
  guard_ = nullptr;
  comm_ = nullptr;
}

result<void> gradient_reducer::flush() {
  FTRT_ASSERT(comm_ != nullptr);
  while (status_ && next_ < plan_.regions.size()) begin_next();
  disarm();
  return status_;
}

// Called from inside backward(). A reduction that fails leaves its error in `status_` for flush(),
// unless the next gradient finds that the generation has ended.
void gradient_reducer::parameter_ready(std::size_t parameter) {
  if (guard_ != nullptr) {
    if (auto lives = guard_->check(); !lives) throw generation_ended{std::move(lives.error())};
  }
  if (comm_ == nullptr || !status_) return;
  auto& missing = missing_[plan_.bucket_of[parameter]];
  if (missing > 0) --missing;
  while (status_ && next_ < plan_.regions.size() && missing_[next_] == 0) begin_next();
}

void gradient_reducer::begin_next() {
  if (inspector_) inspector_(plan_.regions[next_]);
  const auto begun = monotonic_ns();
  status_ = comm_->begin_all_reduce(plan_.regions[next_], reduce_op::sum);
  spent_ns_ += monotonic_ns() - begun;
  ++next_;
}

}  // namespace ftrt::training
