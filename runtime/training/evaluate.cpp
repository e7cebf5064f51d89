#include <c10/util/Exception.h>
#include <time.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <runtime/training/autocast.hpp>
#include <runtime/training/trainer_impl.hpp>
#include <span>
#include <storage/digest.hpp>
#include <utility>

namespace ftrt {

using training::evaluation_word;
using training::real;
using training::whole;

namespace {

// Rows of one forward pass over the test set; a rank owns whole ones, so that the result does not
// depend on where its share begins.
constexpr std::uint64_t evaluation_batch = 250;

constexpr int final_snapshot_tries = 1000;

void sleep_1ms() {
  const timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

// A function of the state, but for a stop: whoever restores it knows whether the test set is still
// to be done.
bool trainer::impl::evaluation_due() const {
  const auto k = committed();
  if (k.value() == 0 ||
      state.at(whole::evaluated_iteration) == static_cast<std::int64_t>(k.value())) {
    return false;
  }
  if (k.value() == program.total_iterations) return true;
  if (stop_decided) return false;  // who resumes the run has more time
  const auto window = program.schedule->window_of(k);
  const auto every = program.values.train.evaluate_every_epochs;
  return every > 0 && window.last_of_epoch && (window.epoch + 1) % every == 0;
}

result<void> trainer::impl::evaluate() {
  const auto k = committed();
  times = {monotonic_ns(), 0, 0};
  progress.set_phase(storage::train_phase::evaluating);
  const auto share = evaluate_share();
  if (!share) return tl::unexpected(share.error());
  const auto& word = *share;
  hurt(training::injury_moment::evaluate, k);
  times.compute_ns = monotonic_ns() - times.begin_ns;
  std::vector<evaluation_word> words(world_size);
  evaluation = {k, comm, world_size};
  in_flight = 0;
  begin_collective(sizeof word);
  auto status = comm->exchange(training::evaluation_key(k), std::as_bytes(std::span{&word, 1}),
                               std::as_writable_bytes(std::span{words}));
  if (!status) return status;
  end_collectives();
  times.reduce_ns = monotonic_ns() - times.begin_ns - times.compute_ns;
  apply_evaluation(words);
  return {};
}

result<evaluation_word> trainer::impl::evaluate_share() {
  const auto& test = *program.data.test;
  const auto batches = (test.size() + evaluation_batch - 1) / evaluation_batch;
  const auto mine = data::share_of(batches, rank, world_size);
  evaluation_word word;
  for (auto b = mine.begin; b < mine.end; ++b) {
    if (stop_requested.load(std::memory_order_relaxed)) {
      word.given_up = 1;
      return word;
    }
    if (auto alive = comm->check(); !alive) return tl::unexpected(alive.error());
    progress.set_micro_batch(b);
    const auto begin = b * evaluation_batch;
    std::vector<std::uint32_t> ids(std::min(evaluation_batch, test.size() - begin));
    std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(begin));
    training::seed_generator(program.values.run.seed, committed().value(), b,
                             training::random_purpose::evaluation);
    const auto samples = training::load_batch(test, program.format, ids);
    const training::autocast_scope precision{program.values.train.amp};
    const auto sums = program.net->evaluate(samples);
    word.loss_sum += sums.loss_sum;
    word.correct += sums.correct;
    word.samples += sums.samples;
  }
  return word;
}

void trainer::impl::apply_evaluation(std::span<const evaluation_word> words) {
  if (training::is_given_up(words)) {
    stop_decided = true;
    return evaluation.reset();
  }
  evaluation_word all;
  for (const auto& word : words) {
    all.loss_sum += word.loss_sum;
    all.correct += word.correct;
    all.samples += word.samples;
  }
  const auto samples = static_cast<double>(std::max<std::int64_t>(all.samples, 1));
  state.at(real::test_loss) = all.loss_sum / samples;
  state.at(real::test_accuracy) = static_cast<double>(all.correct) / samples;
  state.at(whole::evaluated_iteration) = state.at(whole::iteration);
  evaluation.reset();

  storage::progress_record record;
  record.kind = storage::record_kind::evaluation;
  record.generation = generation.value();
  record.iteration = committed().value();
  record.optimizer_step = static_cast<std::uint64_t>(state.at(whole::optimizer_step));
  record.loss = state.at(real::test_loss);
  record.accuracy = state.at(real::test_accuracy);
  record.samples = static_cast<std::uint64_t>(all.samples);
  record.compute_ns = times.compute_ns;
  record.reduce_ns = times.reduce_ns;
  record.committed_ns = monotonic_ns();
  record.step_ns = record.committed_ns - times.begin_ns;
  progress.append(record);
}

result<void> trainer::impl::write_snapshot(bool final) {
  progress.set_phase(storage::train_phase::snapshot);
  hurt(training::injury_moment::snapshot, committed());
  const auto part = part_of(program.map.layout, rank.value(), world_size);
  const storage::snapshot_header header{generation,
                                        branch,
                                        committed(),
                                        rank.value(),
                                        world_size,
                                        part.begin_bytes,
                                        part.end_bytes - part.begin_bytes};
  const auto slot = snapshots.write(
      header, state.bytes().subspan(part.begin_bytes, part.end_bytes - part.begin_bytes));
  if (!slot) return tl::unexpected(slot.error());
  if (callbacks.on_snapshot) {
    callbacks.on_snapshot(
        {generation, branch, committed(), *slot, rank.value(), world_size, final});
  }
  return {};
}

// The run's end waits for this one, so a busy slot is worth a second.
result<void> trainer::impl::write_final_snapshot() {
  auto status = write_snapshot(true);
  for (int i = 0; i < final_snapshot_tries && !status; ++i) {
    if (status.error().code != error_code::busy) break;
    sleep_1ms();
    status = write_snapshot(true);
  }
  return status;
}

protocol::finished trainer::impl::report(bool stopped) const {
  protocol::finished finished;
  finished.generation = generation;
  finished.iteration = committed();
  finished.optimizer_steps = static_cast<std::uint64_t>(state.at(whole::optimizer_step));
  finished.stopped = stopped;
  finished.weights_digest = storage::weights_digest(program.map.layout, state.bytes());
  finished.train_loss = state.at(real::last_loss);
  finished.test_accuracy = state.at(real::test_accuracy);
  return finished;
}

training_outcome trainer::impl::train() {
  FTRT_ASSERT(has_state && comm);
  snapshot_wanted = false;
  stop_decided = false;
  try {
    for (;;) {
      result<void> status;
      if (evaluation_due()) status = evaluate();
      if (!status) return training_interrupted{std::move(status.error())};
      const bool done = committed().value() >= program.total_iterations;
      if (done || stop_decided) {
        if (digest_every > 0) digest_state();
        hurt(training::injury_moment::stop, committed());
        if (status = write_final_snapshot(); !status) {
          return training_interrupted{std::move(status.error())};
        }
        progress.set_phase(storage::train_phase::finished);
        return training_finished{report(!done || evaluation_due())};
      }
      // A skipped snapshot only makes the next rollback longer; waiting would stall every step.
      if (std::exchange(snapshot_wanted, false)) static_cast<void>(write_snapshot(false));
      if (status = iterate(committed().next()); !status) {
        if (not_finite) return *std::exchange(not_finite, std::nullopt);
        return training_interrupted{std::move(status.error())};
      }
    }
  } catch (const c10::Error& e) {
    return training_failed{committed().next(), e.what_without_backtrace()};
  } catch (const std::exception& e) {
    return training_failed{committed().next(), e.what()};
  }
}

}  // namespace ftrt
