#pragma once

#include <atomic>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <runtime/communicator/communicator.hpp>
#include <runtime/training/trainer.hpp>
#include <runtime/worker/generation_gate.hpp>
#include <runtime/worker/mailbox.hpp>
#include <runtime/worker/placement.hpp>
#include <runtime/worker/training_events.hpp>
#include <runtime/worker/training_outbox.hpp>
#include <string>
#include <vector>

namespace ftrt::worker {

// The training thread of one worker, from its first line to its last: owns the trainer and the
// communicator, carries commands out one after the other, and reports each outcome.
//
// Whatever the user's model or data throws becomes program_failed or join_failed; nothing leaves
// run(). All on the training thread, except request_stop(), injure() and has_state().
class training_loop {
 public:
  struct identity {
    rank_id rank;
    incarnation_id incarnation;
  };

  training_loop(training_program& program, worker_memory memory, identity who,
                generation_gate& gate, training_outbox& outbox);

  // Until `commands` is closed. The last event is thread_ended.
  void run(mailbox<training_command>& commands);

  // Any thread. Remembered: it holds for this and all later generations.
  void request_stop();
  // Any thread. Chaos: what this rank does to itself.
  void injure(const protocol::injure& what);
  // Any thread. False while the state is being replaced.
  [[nodiscard]] bool has_state() const { return has_state_.load(std::memory_order_relaxed); }

 private:
  void carry_out(training_command& command);
  void begin();
  void end();
  void handle(join_command& command);
  void handle(const train_command& command);
  void handle(const park_command& command);

  [[nodiscard]] result<protocol::joined> join(join_command& command);
  [[nodiscard]] result<std::shared_ptr<communicator>> enter(join_command& command);
  [[nodiscard]] training_outcome train();
  [[nodiscard]] protocol::parked park();
  void report_interruption(generation_id generation, const error& why);
  void tell_trainer_to_stop();

  training_program& program_;
  worker_memory memory_;
  const identity who_;
  generation_gate& gate_;
  training_outbox& outbox_;

  static constexpr std::size_t max_early_injuries = 64;

  std::mutex trainer_mutex_;  // guards the pointer for request_stop() and injure(), nothing else
  std::unique_ptr<trainer> trainer_;
  std::vector<protocol::injure> early_injuries_;  // before there was a trainer
  std::string why_no_trainer_;
  std::shared_ptr<communicator> comm_;  // of the newest generation that was entered
  std::optional<core_hold> hold_;       // from a join to the next command
  generation_id joined_;                // may train; 0: none
  std::atomic<bool> has_state_{false};
  std::atomic<bool> stop_requested_{false};
};

}  // namespace ftrt::worker
