#pragma once

#include <chrono>
#include <ftrt/scenario.hpp>
#include <functional>
#include <memory>
#include <runtime/training/trainer.hpp>
#include <runtime/worker/children.hpp>
#include <schemas/protocol/channel.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <vector>

namespace ftrt::worker {

// The process that has loaded LibTorch, data and model once and from which workers are forked in
// milliseconds. It has one thread, always: a forked child has only the thread that forked.
//
// It is the parent of all workers and alone can reap them; control gets a pidfd of each. When the
// channel to control ends, its children end too: by themselves, since their lifelines end, or by
// SIGKILL after supervision.grace_period; then their memories' keepers. Nothing is left behind.
class zygote {
 public:
  // `channel`: SOCK_SEQPACKET to control.
  explicit zygote(unique_fd channel) : channel_(std::move(channel)) {}

  // Until control is gone; returns the exit code. In a forked child it does not return.
  [[nodiscard]] int run();

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] result<void> watch_children();
  [[nodiscard]] bool configure();
  [[nodiscard]] checked<void> load(const protocol::zygote_configure& configure);
  [[nodiscard]] protocol::zygote_ready ready() const;
  void serve();
  void on_channel();
  void on_fork(const protocol::fork_worker& request, std::vector<unique_fd> descriptors);
  [[nodiscard]] result<int> fork_worker(const protocol::fork_worker& request,
                                        std::vector<unique_fd> descriptors);
  void announce(const protocol::fork_worker& request, int pid);
  void on_children();
  void send(const protocol::message& m, std::span<const int> descriptors = {});
  void end_children();
  void reap_until(clock::time_point deadline, const std::function<bool()>& done);

  unique_fd channel_;
  unique_fd child_signals_;
  scenario values_;
  std::unique_ptr<training_program> program_;
  children children_;
  bool control_is_gone_ = false;
};

}  // namespace ftrt::worker
