#include <storage/progress.hpp>
#include <tools/bench/micro/measure.hpp>

namespace ftrt::bench {
namespace {

// All that supervision costs the training thread: the words of one iteration of two micro-batches
// with three collectives, and its record.
void progress_of_an_iteration(benchmark::State& state) {
  const auto memory =
      must(storage::shared_memory::create("ftrt-bench-progress", storage::progress_memory_bytes()));
  storage::progress_writer progress{memory};
  storage::progress_record record;
  iteration_id iteration;
  for (auto _ : state) {
    iteration = iteration.next();
    progress.begin_iteration(iteration);
    progress.set_phase(storage::train_phase::compute);
    progress.set_micro_batch(0);
    progress.set_micro_batch(1);
    progress.set_phase(storage::train_phase::all_reduce);
    for (std::uint64_t n = 0; n < 3; ++n) progress.begin_collective(n, 1 << 20);
    progress.set_collective_sequence(iteration.value());
    progress.set_phase(storage::train_phase::decision);
    progress.set_phase(storage::train_phase::applying);
    progress.begin_apply();
    progress.commit(iteration);
    record.iteration = iteration.value();
    progress.append(record);
  }
}

// Control's side: one look at a rank and the record that it left.
void reading_progress(benchmark::State& state) {
  const auto memory =
      must(storage::shared_memory::create("ftrt-bench-progress", storage::progress_memory_bytes()));
  storage::progress_writer progress{memory};
  storage::progress_reader reader{memory};
  for (auto _ : state) {
    progress.append({});
    benchmark::DoNotOptimize(reader.view());
    benchmark::DoNotOptimize(reader.next());
  }
}

BENCHMARK(progress_of_an_iteration);
BENCHMARK(reading_progress);

}  // namespace
}  // namespace ftrt::bench
