#pragma once

#include <chrono>
#include <ftrt/types.hpp>
#include <memory>
#include <runtime/training/trainer.hpp>
#include <runtime/worker/control_link.hpp>
#include <runtime/worker/generation_gate.hpp>
#include <runtime/worker/report_book.hpp>
#include <runtime/worker/source_memories.hpp>
#include <runtime/worker/training_outbox.hpp>
#include <runtime/worker/training_thread.hpp>
#include <schemas/protocol/channel.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <storage/progress.hpp>
#include <storage/shared_memory.hpp>
#include <vector>

namespace ftrt::worker {

// What a forked worker is given.
struct worker_setup {
  rank_id rank;
  incarnation_id incarnation;
  unique_fd control;   // SOCK_STREAM
  unique_fd lifeline;  // SOCK_SEQPACKET
  worker_memory memory;
  std::unique_ptr<source_memories> sources = nullptr;  // of one that was a spare; else nullptr
};

// The control thread of one worker: reads commands from control, hands them to the training thread,
// and says what came of them. It never computes and never waits for the training thread, so a
// revoke is obeyed at any moment.
//
// The end of the control socket means that an actor died: training goes on, and a new socket comes
// over the lifeline. The end of the lifeline means that control itself is gone: the worker leaves.
//
// Lives on the main thread of a forked child. State is touched by this thread alone; the gate and
// the outbox are what it shares with the training thread, and the outbox with the communicator's.
class rank_worker {
 public:
  // The training thread keeps no reference to `setup`; `program` must outlive the worker.
  rank_worker(training_program& program, worker_setup setup);
  ~rank_worker();

  // Until told to leave; returns the exit code. Calls _exit() where the training thread does not
  // end within supervision.grace_period.
  [[nodiscard]] int run();

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] result<void> begin();
  void wait_for_news();
  void leave(const std::string& why);
  [[nodiscard]] int wait_for_training_to_end();

  void on_lifeline();
  void on_packet(protocol::packet packet);
  void attach(unique_fd socket);
  void on_join(const protocol::join& request, std::vector<unique_fd> descriptors);
  void refuse_join(const protocol::join& request, error why);

  bool read_link();
  void on_message(const protocol::message& m);
  void on_train(generation_id generation);
  void on_revoke(generation_id generation);
  void refuse(std::string_view text);
  void post(training_command command);

  void on_training_events();
  void on_event(const training_event& event);
  void on_interrupted(const interrupted& event);
  void report(const protocol::message& m);
  void say_hello();
  void enter_phase(generation_id generation, protocol::worker_phase phase);
  [[nodiscard]] protocol::hello hello() const;

  training_program& program_;
  const rank_id rank_;
  const incarnation_id incarnation_;
  unique_fd lifeline_;
  control_link link_;
  worker_memory memory_;  // moved to the training thread by begin()
  // The training thread copies from these, and ends before them.
  std::unique_ptr<source_memories> sources_;
  storage::shared_memory progress_memory_;
  std::unique_ptr<storage::progress_reader> progress_;

  generation_gate gate_;
  report_book reports_;
  std::unique_ptr<training_outbox> outbox_;
  std::unique_ptr<training_thread> training_;

  generation_id generation_;  // the newest one that a join was accepted for
  protocol::worker_phase phase_ = protocol::worker_phase::starting;
  std::uint64_t refused_ = 0;
  bool leaving_ = false;
  bool training_ended_ = false;
  clock::time_point leave_deadline_;
};

}  // namespace ftrt::worker
