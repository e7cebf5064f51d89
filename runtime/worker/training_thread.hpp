#pragma once

#include <ftrt/error.hpp>
#include <runtime/worker/mailbox.hpp>
#include <runtime/worker/training_events.hpp>
#include <runtime/worker/training_loop.hpp>
#include <string>
#include <thread>

namespace ftrt::worker {

// A training_loop on a thread of its own. Used by the control thread.
//
// The thread may be stuck in a user's code for ever, and then cannot be joined: who destroys this
// object must have seen thread_ended; who has not calls _exit().
class training_thread {
 public:
  // Commands that may wait: one at work and a revoke, join and train behind it are the rule.
  static constexpr std::size_t max_commands = 16;

  training_thread(training_program& program, worker_memory memory, training_loop::identity who,
                  generation_gate& gate, training_outbox& outbox)
      : loop_(program, std::move(memory), who, gate, outbox), commands_(max_commands) {}
  ~training_thread();

  [[nodiscard]] result<void> start();
  // False: so many commands are waiting that this one is refused.
  [[nodiscard]] bool post(training_command command) { return commands_.push(std::move(command)); }
  // The thread ends after the command at work; the caller aborts the communicator too.
  void close() { commands_.close(); }

  void request_stop() { loop_.request_stop(); }
  void injure(const protocol::injure& what) { loop_.injure(what); }
  [[nodiscard]] bool has_state() const { return loop_.has_state(); }

 private:
  training_loop loop_;
  mailbox<training_command> commands_;
  std::thread thread_;
};

}  // namespace ftrt::worker
