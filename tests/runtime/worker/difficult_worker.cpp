// A worker program of a user's own, with models as users write them: one throws, one never comes
// back, one starts a thread.
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ftrt/model.hpp>
#include <ftrt/worker.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

class small_model : public ftrt::model {
 public:
  small_model() : weight_(at::ones({1}).set_requires_grad(true)) {}

  std::vector<ftrt::named_parameter> parameters() override { return {{"weight", weight_}}; }

  at::Tensor loss_sum(const ftrt::batch&) override {
    // The warm-up in the zygote counts as well.
    if (++calls_ == 40) misbehave();
    return at::sum(at::mul(weight_, weight_));
  }
  ftrt::evaluation_sums evaluate(const ftrt::batch& samples) override {
    return {0.0, 0, samples.targets.size(0)};
  }

 private:
  virtual void misbehave() {}

  at::Tensor weight_;
  int calls_ = 0;
};

class throwing_model : public small_model {
  void misbehave() override { throw std::runtime_error("the fortieth batch is not to my taste"); }
};

class stuck_model : public small_model {
  void misbehave() override {
    while (true) ::pause();
  }
};

// No rank can train one batch; zygote and spares, which make a step to warm up, can.
class aborting_model : public small_model {
 public:
  at::Tensor loss_sum(const ftrt::batch& samples) override {
    if (is_rank()) {
      std::fputs("these are my last words\n", stderr);
      std::abort();
    }
    return small_model::loss_sum(samples);
  }

 private:
  static bool is_rank() {
    std::string name;
    std::ifstream{"/proc/self/comm"} >> name;
    return name.starts_with("ftrt-rank");
  }
};

class threaded_model : public small_model {
 public:
  threaded_model() {
    std::thread{[] {
      while (true) ::pause();
    }}.detach();
  }
};

template <class Model>
std::unique_ptr<ftrt::model> make(const ftrt::scenario&) {
  return std::make_unique<Model>();
}

FTRT_REGISTER_MODEL(throwing, make<throwing_model>);
FTRT_REGISTER_MODEL(stuck, make<stuck_model>);
FTRT_REGISTER_MODEL(aborting, make<aborting_model>);
FTRT_REGISTER_MODEL(threaded, make<threaded_model>);

}  // namespace

int main(int argc, char** argv) {
  return ftrt::worker_main(argc, argv);
}
