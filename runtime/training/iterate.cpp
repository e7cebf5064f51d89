#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <runtime/training/flat_math.hpp>
#include <runtime/training/schedule.hpp>
#include <runtime/training/trainer_impl.hpp>
#include <span>
#include <storage/digest.hpp>

namespace ftrt {

using training::control_word;
using training::decision;
using training::injury_moment;
using training::real;
using training::whole;

result<void> trainer::impl::iterate(iteration_id k) {
  const auto window = program.schedule->window_of(k);
  times = {monotonic_ns(), 0, 0};
  progress.begin_iteration(k);
  in_flight = reduced_bytes = 0;
  if (std::ranges::binary_search(left_out, k)) return leave_out_window(window);
  progress.set_phase(storage::train_phase::compute);
  std::ranges::copy(state.buffers(), buffers_aside.begin());
  iteration_open = true;
  std::memset(memory.bucket.data(), 0, program.map.bucket_bytes);
  own_not_finite = false;
  hurt(injury_moment::begin, k);
  hurt(injury_moment::before_backward, k);

  const auto loss_sum = compute(window);
  if (!loss_sum) return tl::unexpected(loss_sum.error());
  times.compute_ns = monotonic_ns() - times.begin_ns - reducer->spent_ns();
  progress.set_phase(storage::train_phase::all_reduce);
  hurt(injury_moment::all_reduce, k);
  result<void> status = reducer->flush();
  begin_buffers(window, status);
  if (status) status = comm->finish_reductions();
  if (!status) return status;
  end_collectives();

  return decide_and_apply(window, make_word(window, *loss_sum));
}

// A window that kills whoever computes it. It is decided and committed as any other, so that
// history, data and randomness go on as they would have; nothing but the counters changes.
result<void> trainer::impl::leave_out_window(const data::data_window& window) {
  std::ranges::copy(state.buffers(), buffers_aside.begin());
  iteration_open = true;
  control_word word;
  word.iteration = window.iteration.value();
  word.flags = flags_of(window.iteration) | training::flag_left_out;
  return decide_and_apply(window, word);
}

result<void> trainer::impl::decide_and_apply(const data::data_window& window,
                                             const control_word& word) {
  const auto k = window.iteration;
  std::vector<control_word> words(world_size);
  progress.set_phase(storage::train_phase::decision);
  prepared = {k, comm, world_size};
  begin_collective(sizeof(control_word));
  auto status = comm->exchange(training::decision_key(k), std::as_bytes(std::span{&word, 1}),
                               std::as_writable_bytes(std::span{words}));
  if (!status) return status;
  times.reduce_ns = monotonic_ns() - times.begin_ns - times.compute_ns;
  end_collectives();

  const auto decided = training::decide(words);
  if (decided.divergent) {
    prepared.reset();
    return fail(error_code::corrupt, "reduced gradients of iteration " + std::to_string(k.value()) +
                                         " differ between ranks; the iteration is redone");
  }
  if (gives_up(decided)) {
    give_up_iteration();
    not_finite = {k, decided.not_finite};
    if (digest_every > 0) digest_state();  // what is to be gone back to is known better so
    return fail(error_code::aborted, "the loss or a gradient is not finite");
  }
  hurt(injury_moment::before_apply, k);
  apply(window, decided);
  hurt(injury_moment::after_commit, k);
  if (digest_every > 0 && k.value() % digest_every == 0) digest_state();
  return {};
}

// An iteration that all leave as it was: nobody applies it, now or when the ranks meet again.
bool trainer::impl::gives_up(const decision& decided) const {
  const auto& train = program.values.train;
  return decided.divergent || training::leaves_iteration(decided, train.on_non_finite, train.amp,
                                                         state.at(real::loss_scale));
}

// Looks for what is not finite in this rank's own share of a region.
void trainer::impl::inspect(const bucket_region& region) {
  const auto floats = gradients().subspan(region.offset_bytes / sizeof(float), region.count);
  own_not_finite = own_not_finite || !training::all_finite(floats);
}

void trainer::impl::begin_collective(std::uint64_t bytes) {
  reduced_bytes += bytes;
  progress.begin_collective(comm->sequence() + ++in_flight, bytes);
}

void trainer::impl::end_collectives() {
  in_flight = 0;
  progress.set_collective_sequence(comm->sequence());
}

void trainer::impl::hurt(injury_moment moment, iteration_id k) {
  for (const auto& what : injuries.take(k, moment)) {
    if (what.number != 0) progress.note_injury(what.number);
    if (what.phase != protocol::injury_phase::none) {
      training::strike(what);
      continue;
    }
    if (what.kind == protocol::injury_kind::slow) {
      slow.begin(what, k);
      continue;
    }
    const bool parameter = what.target == protocol::injury_target::parameter;
    training::carry_out(what, program.map.layout, parameter ? state.parameters() : gradients());
  }
}

// What control compares with the other ranks' (no message: it reads the ring).
void trainer::impl::digest_state() {
  const auto begun = monotonic_ns();
  const auto digest = storage::state_digest_words(program.map.layout, state.bytes());
  progress.append(storage::digest_record(generation, committed(), digest, monotonic_ns() - begun));
}

// Forward and backward of this rank's micro-batches, the reduction begun within the last one.
// Returns the sum of the losses. Where the generation ends meanwhile, why: the next one begins when
// the last survivor has left off.
result<double> trainer::impl::compute(const data::data_window& window) try {
  const auto& values = program.values;
  const auto mine = my_micro_batches(window);
  const double factor = state.at(real::loss_scale) / static_cast<double>(window.positions.size());
  reducer->guard(*comm);
  if (mine.size() == 0) reducer->arm(*comm);  // nothing to add, all to reduce
  double loss_sum = 0;
  for (auto m = mine.begin; m < mine.end; ++m) {
    if (auto alive = comm->check(); !alive) return tl::unexpected(alive.error());
    progress.set_micro_batch(m);
    slow.pause(window.iteration);
    if (m == mine.begin && training::is_poisoned(values.chaos, rank, window.iteration)) {
      std::fputs("chaos: this batch is poisoned\n", stderr);
      std::abort();
    }
    const auto positions = program.schedule->micro_batch(window, m);
    const auto ids = std::span{order_of(window.epoch)}.subspan(positions.begin, positions.size());
    training::seed_generator(values.run.seed, window.iteration.value(), m,
                             training::random_purpose::training);
    const auto samples = training::load_batch(*program.data.train, program.format, ids);
    if (m + 1 == mine.end) reducer->arm(*comm);
    loss_sum += training::forward_backward(*program.net, samples, values.train.amp, factor);
  }
  return loss_sum;
} catch (const training::generation_ended& end) {
  return tl::unexpected(end.why());
}

// Puts this rank's buffers beside its gradients, weighted by its micro-batches, and begins their
// reduction.
void trainer::impl::begin_buffers(const data::data_window& window, result<void>& status) {
  const auto weight = static_cast<float>(my_micro_batches(window).size());
  for (const auto& buffer : program.map.buffers) {
    auto* to = memory.bucket.data() + buffer.bucket_bytes;
    const auto* from = state.base() + buffer.arena_bytes;
    if (buffer.kind == training::buffer_kind::max) std::memcpy(to, from, buffer.size_bytes);
    if (buffer.kind != training::buffer_kind::mean || weight == 0) continue;
    const auto* values = reinterpret_cast<const float*>(from);
    std::transform(values, values + buffer.count, reinterpret_cast<float*>(to),
                   [weight](float v) { return v * weight; });
  }
  const auto begin = [&](const bucket_region& region, reduce_op op) {
    if (!status || region.count == 0) return;
    begin_collective(region.count * size_of(region.type));
    status = comm->begin_all_reduce(region, op);
  };
  begin(program.map.means, reduce_op::sum);
  begin(program.map.counters, reduce_op::max);
}

control_word trainer::impl::make_word(const data::data_window& window, double loss_sum) {
  const auto scale = state.at(real::loss_scale);
  const auto measure = training::unscale_and_measure(gradients(), static_cast<float>(1.0 / scale));
  const auto k = window.iteration.value();
  control_word word;
  word.iteration = k;
  word.found_inf = measure.found_inf ? 1 : 0;
  word.grad_norm = measure.norm;
  word.loss_sum = loss_sum;
  const auto mine = my_micro_batches(window);
  for (auto m = mine.begin; m < mine.end; ++m) {
    word.samples += program.schedule->micro_batch(window, m).size();
  }
  word.flags = flags_of(window.iteration);
  if (own_not_finite) word.flags |= training::flag_not_finite;
  return word;
}

// What a rank asks for at the end of iteration k.
std::uint32_t trainer::impl::flags_of(iteration_id k) const {
  const auto due = [k](std::uint64_t every) { return every > 0 && k.value() % every == 0; };
  const auto& checkpoint = program.values.checkpoint;
  std::uint32_t flags = 0;
  if (due(checkpoint.every_iterations) || due(checkpoint.snapshot_every_iterations)) {
    flags |= training::flag_snapshot;
  }
  if (stop_requested.load(std::memory_order_relaxed)) flags |= training::flag_stop;
  return flags;
}

// From here to commit the state is between two iterations, and progress says so. Nothing in here
// can fail: what it needs is all in memory.
void trainer::impl::apply(const data::data_window& window, const decision& decided) {
  const auto& values = program.values;
  progress.set_phase(storage::train_phase::applying);
  progress.begin_apply();
  if (!decided.left_out) apply_buffers(window, decided.skip);
  const auto step = static_cast<std::uint64_t>(state.at(whole::optimizer_step));
  const double lr = training::learning_rate(values, step, program.total_iterations);
  const double scale = state.at(real::loss_scale);
  if (!decided.skip) {
    apply_optimizer(training::clip_factor(decided.grad_norm, values.train.clip_norm), lr);
    state.at(whole::optimizer_step) += 1;
  }
  hurt(injury_moment::optimizer, window.iteration);
  if (values.train.amp == amp_mode::fp16 && !decided.left_out) {
    const auto next = training::update_scaler({scale, state.at(whole::growth_tracker)},
                                              decided.skip, values.train.scale_growth_interval);
    state.at(real::loss_scale) = next.scale;
    state.at(whole::growth_tracker) = next.growth_tracker;
  }
  state.at(whole::iteration) = static_cast<std::int64_t>(window.iteration.value());
  state.at(whole::epoch) = static_cast<std::int64_t>(window.epoch + (window.last_of_epoch ? 1 : 0));
  state.at(whole::global_sample) = static_cast<std::int64_t>(window.consumed);
  if (!decided.left_out) state.at(real::last_loss) = decided.loss;
  progress.commit(window.iteration);
  iteration_open = false;
  prepared.reset();
  snapshot_wanted = decided.snapshot;
  stop_decided = decided.stop;
  append_record(window, decided, lr, scale, !decided.skip);
}

// A skipped step leaves no NaN in a running mean, where it would stay for ever: every rank reads
// the same sum, so all keep what they had.
void trainer::impl::apply_buffers(const data::data_window& window, bool skipped) {
  const auto count = static_cast<float>(program.schedule->micro_batches(window));
  const auto keep = [this](std::byte* to, const auto& buffer) {
    std::memcpy(to, buffers_aside.data() + (buffer.arena_bytes - program.map.buffers_begin),
                buffer.size_bytes);
  };
  for (const auto& buffer : program.map.buffers) {
    auto* to = state.base() + buffer.arena_bytes;
    const auto* from = memory.bucket.data() + buffer.bucket_bytes;
    switch (buffer.kind) {
      case training::buffer_kind::mean: {
        const std::span sums{reinterpret_cast<const float*>(from), buffer.count};
        if (skipped && !training::all_finite(sums)) {
          keep(to, buffer);
          break;
        }
        std::ranges::transform(sums, reinterpret_cast<float*>(to),
                               [count](float v) { return v / count; });
        break;
      }
      case training::buffer_kind::max:
        std::memcpy(to, from, buffer.size_bytes);
        break;
      case training::buffer_kind::constant:
        keep(to, buffer);
        break;
    }
  }
}

void trainer::impl::apply_optimizer(float clip, double lr) {
  const auto& train = program.values.train;
  if (train.optimizer == optimizer_kind::adamw) {
    training::adamw_step(state.parameters(), gradients(), state.optimizer(0), state.optimizer(1),
                         clip, static_cast<std::uint64_t>(state.at(whole::optimizer_step)) + 1,
                         {lr, train.beta1, train.beta2, train.eps, train.weight_decay});
    return;
  }
  training::sgd_step(state.parameters(), gradients(), state.optimizer(0), clip,
                     {static_cast<float>(lr), static_cast<float>(train.momentum),
                      static_cast<float>(train.weight_decay), train.nesterov});
}

void trainer::impl::append_record(const data::data_window& window, const decision& decided,
                                  double lr, double scale, bool stepped) {
  storage::progress_record record;
  record.kind = storage::record_kind::iteration;
  record.skipped = stepped ? 0 : 1;
  record.generation = generation.value();
  record.iteration = window.iteration.value();
  record.optimizer_step = static_cast<std::uint64_t>(state.at(whole::optimizer_step));
  record.loss = state.at(real::last_loss);  // of the newest window that was computed
  record.grad_norm = decided.grad_norm;
  record.lr = lr;
  record.loss_scale = scale;
  record.samples = decided.samples;
  record.compute_ns = times.compute_ns;
  record.reduce_ns = times.reduce_ns;
  record.collective_sequence = comm->sequence();
  storage::set_reduced_bytes(record, reduced_bytes);
  record.committed_ns = monotonic_ns();
  record.step_ns = record.committed_ns - times.begin_ns;
  progress.append(record);
}

const std::vector<std::uint32_t>& trainer::impl::order_of(std::uint64_t epoch) {
  if (order_epoch != epoch) {
    order = data::epoch_order(program.values.run.seed, epoch, program.data.train->size(),
                              program.values.data.shuffle);
    order_epoch = epoch;
  }
  return order;
}

data::index_range trainer::impl::my_micro_batches(const data::data_window& window) const {
  return data::share_of(program.schedule->micro_batches(window), rank, world_size);
}

}  // namespace ftrt
