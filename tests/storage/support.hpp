#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ftrt/types.hpp>
#include <functional>
#include <random>
#include <schemas/state_layout.hpp>
#include <string>
#include <tests/support/temporary_folder.hpp>
#include <utility>
#include <vector>

namespace ftrt::storage::testing {

// A forked process that runs `body` and exits with its result; killed and reaped with the object.
class child_process {
 public:
  explicit child_process(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
    if (pid_ < 0) std::abort();
  }
  ~child_process() {
    if (pid_ > 0) kill();
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait());
  }
  // The exit status, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// A pipe whose ends are inherited by fork: one side says a byte, the other waits for it.
class signal_pipe {
 public:
  signal_pipe() {
    if (::pipe(ends_) != 0) std::abort();
  }
  ~signal_pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  signal_pipe(const signal_pipe&) = delete;
  signal_pipe& operator=(const signal_pipe&) = delete;
  void say() const {
    const char byte = 'x';
    if (::write(ends_[1], &byte, 1) != 1) std::abort();
  }
  void wait() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) std::abort();
  }

 private:
  int ends_[2] = {-1, -1};
};

// Random numbers of a run that can be repeated: FTRT_SEED sets the seed, failures show it.
class seeded {
 public:
  seeded()
      : seed_(pick()),
        engine_(seed_),
        trace_(__FILE__, __LINE__, "FTRT_SEED=" + std::to_string(seed_)) {}
  std::uint64_t operator()() { return engine_(); }
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }

 private:
  static std::uint64_t pick() {
    const char* text = std::getenv("FTRT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  }
  std::uint64_t seed_;
  std::mt19937_64 engine_;
  ::testing::ScopedTrace trace_;
};

inline tensor_spec tensor(std::string name, dtype type, std::vector<std::int64_t> shape,
                          tensor_section section = tensor_section::parameter) {
  tensor_spec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.shape = std::move(shape);
  spec.section = section;
  spec.size_bytes = size_of(type);
  for (const auto dimension : spec.shape) spec.size_bytes *= static_cast<std::uint64_t>(dimension);
  return spec;
}

// Lays tensors out one after the other, as a trainer does.
inline state_layout layout_of(std::vector<tensor_spec> tensors) {
  state_layout layout;
  for (auto& spec : tensors) {
    spec.offset_bytes = layout.arena_bytes;
    layout.arena_bytes = align_up(spec.offset_bytes + spec.size_bytes, tensor_alignment_bytes);
    layout.tensors.push_back(std::move(spec));
  }
  return layout;
}

// A small model with one of every kind of tensor.
inline state_layout small_layout() {
  return layout_of(
      {tensor("model.fc1.weight", dtype::f32, {16, 9}), tensor("model.fc1.bias", dtype::bf16, {7}),
       tensor("model.bn.running_mean", dtype::f64, {5}, tensor_section::buffer),
       tensor("model.bn.count", dtype::i64, {}, tensor_section::buffer),
       tensor("optim.fc1.weight.momentum_buffer", dtype::f32, {16, 9}, tensor_section::optimizer),
       tensor("train.iteration", dtype::i64, {}, tensor_section::scalar),
       tensor("train.flag", dtype::boolean, {}, tensor_section::scalar)});
}

// Tensors filled from a seed, gaps zero.
inline std::vector<std::byte> filled_arena(const state_layout& layout, std::uint64_t seed) {
  std::mt19937_64 engine{seed};
  std::vector<std::byte> arena(layout.arena_bytes);
  for (const auto& spec : layout.tensors) {
    for (std::uint64_t i = 0; i < spec.size_bytes; ++i) {
      arena[spec.offset_bytes + i] = static_cast<std::byte>(engine());
    }
  }
  return arena;
}

}  // namespace ftrt::storage::testing
