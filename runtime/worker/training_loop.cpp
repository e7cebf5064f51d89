#include <runtime/communicator/shm_communicator.hpp>
#include <runtime/worker/log.hpp>
#include <runtime/worker/placement.hpp>
#include <runtime/worker/single_thread.hpp>
#include <runtime/worker/training_loop.hpp>
#include <type_traits>
#include <utility>

namespace ftrt::worker {

training_loop::training_loop(training_program& program, worker_memory memory, identity who,
                             generation_gate& gate, training_outbox& outbox)
    : program_(program), memory_(std::move(memory)), who_(who), gate_(gate), outbox_(outbox) {}

void training_loop::run(mailbox<training_command>& commands) {
  begin();
  while (auto command = commands.pop()) {
    carry_out(*command);
    if (trainer_) has_state_ = trainer_->has_state();
  }
  end();
  outbox_.push(thread_ended{});
}

// The handlers turn what the user's code throws into answers; what is left is memory that ran out
// on the way to one.
void training_loop::carry_out(training_command& command) try {
  hold_.reset();  // a join's copies and the threads that it starts may use all cores
  std::visit([this](auto& c) { handle(c); }, command);
} catch (...) {
  outbox_.push(protocol::program_failed{
      comm_ ? comm_->generation() : generation_id{}, {}, describe_current_exception()});
}

void training_loop::request_stop() {
  stop_requested_ = true;
  tell_trainer_to_stop();
}

void training_loop::injure(const protocol::injure& what) {
  const std::lock_guard lock{trainer_mutex_};
  if (trainer_) return trainer_->injure(what);
  if (early_injuries_.size() < max_early_injuries) early_injuries_.push_back(what);
}

void training_loop::tell_trainer_to_stop() {
  const std::lock_guard lock{trainer_mutex_};
  if (trainer_ && stop_requested_) trainer_->request_stop();
}

void training_loop::begin() {
  use_one_thread();
  try {
    trainer_callbacks callbacks;
    callbacks.on_snapshot = [this](const protocol::snapshot_ready& ready) { outbox_.push(ready); };
    auto made = std::make_unique<trainer>(program_, std::move(memory_), who_.rank, who_.incarnation,
                                          std::move(callbacks));
    const std::lock_guard lock{trainer_mutex_};
    for (const auto& what : std::exchange(early_injuries_, {})) made->injure(what);
    trainer_ = std::move(made);
  } catch (...) {
    why_no_trainer_ = describe_current_exception();
    outbox_.push(protocol::program_failed{{}, {}, "cannot set training up: " + why_no_trainer_});
  }
  tell_trainer_to_stop();
}

void training_loop::end() {
  std::unique_ptr<trainer> last;
  {
    const std::lock_guard lock{trainer_mutex_};
    last = std::move(trainer_);
  }
  last.reset();
  gate_.withdraw();
  comm_.reset();
}

void training_loop::handle(join_command& command) {
  const auto generation = command.request.generation;
  joined_ = {};
  if (command.request.role > protocol::state_role::apply_prepared) has_state_ = false;
  auto answer = join(command);
  if (answer) {
    joined_ = generation;
    hold_.emplace(who_.rank, comm_->world_size());
    outbox_.push(std::move(*answer));
    trainer_->prepare_iteration();
    return;
  }
  if (comm_ && comm_->generation() == generation && !comm_->lost_peers().empty()) {
    report_interruption(generation, answer.error());
  }
  outbox_.push(protocol::join_failed{generation, answer.error().code, answer.error().describe()});
}

result<protocol::joined> training_loop::join(join_command& command) {
  if (!trainer_) return fail(error_code::program_error, why_no_trainer_);
  trainer_->before_join(command.request);
  auto entered = enter(command);
  if (!entered) return tl::unexpected(entered.error());
  try {
    return trainer_->join(command.request, *entered, command.source_state.get());
  } catch (...) {
    return fail(error_code::program_error, describe_current_exception());
  }
}

// The communicator must be made on this thread, whose life its robust lock stands for.
result<std::shared_ptr<communicator>> training_loop::enter(join_command& command) {
  shm_membership membership;
  membership.generation = command.request.generation;
  membership.rank = command.request.rank;
  membership.world_size = command.request.world_size;
  membership.sync_block = std::move(command.sync_block);
  membership.buckets = std::move(command.buckets);
  auto made = make_shm_communicator(std::move(membership));
  if (!made) return tl::unexpected(made.error());
  std::shared_ptr<communicator> comm = std::move(*made);
  if (!gate_.publish(comm)) {
    return fail(error_code::stale_generation, "the generation was revoked before it was joined");
  }
  comm_ = comm;
  comm->on_loss([this, generation = comm->generation()](std::vector<rank_id> lost) {
    outbox_.push(peers_died{generation, std::move(lost)});
  });
  return comm;
}

void training_loop::handle(const train_command& command) {
  if (command.generation != joined_ || gate_.is_revoked(command.generation)) {
    outbox_.push(command_refused{"train for generation " +
                                 std::to_string(command.generation.value()) +
                                 ", which is not joined (any more)"});
    return;
  }
  joined_ = {};
  tell_trainer_to_stop();
  auto outcome = train();
  if (const auto* left = std::get_if<training_interrupted>(&outcome)) {
    report_interruption(command.generation, left->why);
  } else if (auto* done = std::get_if<training_finished>(&outcome)) {
    outbox_.push(std::move(done->report));
  } else if (auto* bad = std::get_if<training_not_finite>(&outcome)) {
    outbox_.push(protocol::not_finite{command.generation, bad->iteration, std::move(bad->ranks)});
  } else {
    auto& failed = std::get<training_failed>(outcome);
    outbox_.push(
        protocol::program_failed{command.generation, failed.iteration, std::move(failed.text)});
  }
}

training_outcome training_loop::train() {
  try {
    return trainer_->train();
  } catch (...) {
    return training_failed{trainer_->committed().next(), describe_current_exception()};
  }
}

void training_loop::report_interruption(generation_id generation, const error& why) {
  outbox_.push(interrupted{generation, why, comm_->lost_peers()});
}

void training_loop::handle(const park_command& command) {
  joined_ = {};
  auto report = park();
  report.generation = command.generation;
  has_state_ = report.has_state;
  outbox_.push(report);
}

protocol::parked training_loop::park() {
  if (!trainer_) return {};
  try {
    if (comm_) return trainer_->park();
    protocol::parked report;  // never joined: nothing to restore
    report.committed = trainer_->committed();
    report.has_state = trainer_->has_state();
    return report;
  } catch (...) {
    // State that could not be put right is no state: this rank will receive a survivor's.
    say("cannot restore the state of the last iteration: " + describe_current_exception());
    return {};
  }
}

}  // namespace ftrt::worker
