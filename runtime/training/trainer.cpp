#include <time.h>

#include <runtime/training/trainer_impl.hpp>
#include <utility>

namespace ftrt {

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

trainer::impl::impl(training_program& owner, worker_memory memories, rank_id first_rank,
                    incarnation_id incarnation_number, trainer_callbacks calls)
    : program(owner.get()),
      memory(std::move(memories)),
      rank(first_rank),
      incarnation(incarnation_number),
      callbacks(std::move(calls)),
      progress(memory.progress),
      snapshots(memory.snapshots, program.map.layout.arena_bytes),
      state(program.map, memory.state.data()) {
  use_one_thread();
  FTRT_ASSERT(memory.state.size() >= program.map.layout.arena_bytes);
  FTRT_ASSERT(memory.bucket.size() >= program.map.bucket_bytes);
  program.bind(memory.state.data(), memory.bucket.data());
  reducer = std::make_unique<training::gradient_reducer>(
      program.tensors, training::plan_buckets(program.map, program.values.train.bucket_bytes));
  // Whose share it was can only be seen before the reduction, and costs a pass over the gradients.
  const bool inspects = program.values.train.on_non_finite != non_finite_policy::skip;
  reducer->set_inspector([this, inspects](const bucket_region& region) {
    if (inspects) inspect(region);
    begin_collective(region.count * size_of(region.type));
  });
  progress.set_phase(storage::train_phase::starting);
}

// The model outlives this trainer's memories.
trainer::impl::~impl() {
  program.bind(program.initial.data(), nullptr);
}

trainer::trainer(training_program& program, worker_memory memory, rank_id rank,
                 incarnation_id incarnation, trainer_callbacks callbacks)
    : impl_(std::make_unique<impl>(program, std::move(memory), rank, incarnation,
                                   std::move(callbacks))) {}
trainer::~trainer() = default;

result<protocol::joined> trainer::join(const protocol::join& request,
                                       std::shared_ptr<communicator> comm,
                                       const storage::shared_memory* source_state) {
  return impl_->join(request, std::move(comm), source_state);
}
void trainer::before_join(const protocol::join& request) {
  const bool first = impl_->generation.value() == 0;
  if (first) impl_->hurt(training::injury_moment::start, request.iteration);
}
void trainer::prepare_iteration() {
  const auto next = impl_->committed().next();
  if (next.value() > impl_->program.total_iterations) return;
  static_cast<void>(impl_->order_of(impl_->program.schedule->window_of(next).epoch));
}
training_outcome trainer::train() {
  return impl_->train();
}
protocol::parked trainer::park() {
  return impl_->park();
}
void trainer::request_stop() {
  impl_->stop_requested.store(true, std::memory_order_relaxed);
}
void trainer::injure(const protocol::injure& what) {
  impl_->injuries.add(what);
}
iteration_id trainer::committed() const {
  return impl_->committed();
}
bool trainer::has_state() const {
  return impl_->has_state;
}

}  // namespace ftrt
