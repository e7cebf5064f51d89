// A worker program of a user's own, with models as users write them: one throws, one never comes
// back, one starts a thread, one talks to control without end, one cannot bear a sample, one keeps
// its process from forking.
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ftrt/model.hpp>
#include <ftrt/worker.hpp>
#include <memory>
#include <runtime/data/dataset.hpp>
#include <schemas/protocol/messages.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string own_name() {
  std::string name;
  std::ifstream{"/proc/self/comm"} >> name;
  return name;
}

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
    if (own_name().starts_with("ftrt-rank")) {
      std::fputs("these are my last words\n", stderr);
      std::abort();
    }
    return small_model::loss_sum(samples);
  }
};

// Cannot bear one certain sample.
class poisoned_model : public small_model {
 public:
  static constexpr std::uint32_t poison = 1000;

  explicit poisoned_model(const ftrt::scenario& values) {
    const auto data = ftrt::data::open_data(values);
    std::vector<float> row(static_cast<std::size_t>(ftrt::data::format_of(values).elements()));
    std::int64_t label = 0;
    data->train->gather({&poison, 1}, row, {&label, 1});
    first_ = row.front();
  }
  at::Tensor loss_sum(const ftrt::batch& samples) override {
    const auto* rows = samples.inputs.const_data_ptr<float>();
    const auto width = samples.inputs.numel() / samples.inputs.size(0);
    for (std::int64_t i = 0; i < samples.inputs.size(0); ++i) {
      if (rows[i * width] == first_) suffer();
    }
    return small_model::loss_sum(samples);
  }

 private:
  virtual void suffer() {
    std::fputs("I cannot stand sample 1000\n", stderr);
    std::abort();
  }

  float first_ = 0;
};

class complaining_model : public poisoned_model {
 public:
  using poisoned_model::poisoned_model;

 private:
  void suffer() override { throw std::runtime_error("I cannot stand sample 1000"); }
};

// Once the file that FTRT_HANG_FORK names is there, the next fork of its process never ends.
class unforkable_model : public small_model {
 public:
  unforkable_model() { ::pthread_atfork(hang_once, nullptr, nullptr); }

 private:
  static void hang_once() {
    const char* file = std::getenv("FTRT_HANG_FORK");
    if (file == nullptr || ::unlink(file) != 0) return;
    while (true) ::pause();
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

// The first rank 0 that comes so far sends well-formed words of an old generation to control, many
// at a time and as fast as it can; its successors behave.
class flooding_model : public small_model {
 public:
  explicit flooding_model(std::string marker) : marker_(std::move(marker)) {}

 private:
  void misbehave() override {
    if (own_name() != "ftrt-rank-0") return;
    const int mark = ::open(marker_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (mark < 0) return;
    ::close(mark);
    const auto frame = ftrt::protocol::encode_frame(ftrt::protocol::peer_lost{}).value();
    std::vector<std::byte> water;
    while (water.size() < (16u << 10)) water.insert(water.end(), frame.begin(), frame.end());
    int fd = 3;
    while (!is_stream(fd)) ++fd;
    // Never less than whole frames: what was not taken comes next.
    for (std::size_t at = 0;;) {
      const auto taken = ::send(fd, water.data() + at, water.size() - at, MSG_NOSIGNAL);
      if (taken > 0) at = (at + static_cast<std::size_t>(taken)) % water.size();
    }
  }
  static bool is_stream(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
  }

  std::string marker_;
};

template <class Model>
std::unique_ptr<ftrt::model> make(const ftrt::scenario&) {
  return std::make_unique<Model>();
}

FTRT_REGISTER_MODEL(throwing, make<throwing_model>);
FTRT_REGISTER_MODEL(stuck, make<stuck_model>);
FTRT_REGISTER_MODEL(aborting, make<aborting_model>);
FTRT_REGISTER_MODEL(flooding, [](const ftrt::scenario& values) -> std::unique_ptr<ftrt::model> {
  return std::make_unique<flooding_model>(values.run.directory.string() + "/flooded");
});
FTRT_REGISTER_MODEL(poisoned, [](const ftrt::scenario& values) {
  return std::make_unique<poisoned_model>(values);
});
FTRT_REGISTER_MODEL(complaining, [](const ftrt::scenario& values) {
  return std::make_unique<complaining_model>(values);
});
FTRT_REGISTER_MODEL(unforkable, make<unforkable_model>);
FTRT_REGISTER_MODEL(threaded, make<threaded_model>);

}  // namespace

int main(int argc, char** argv) {
  return ftrt::worker_main(argc, argv);
}
