#include <actors/control/poison.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/sample_order.hpp>
#include <storage/poison_bundle.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

// The micro-batches of the rank that died, and their samples: functions of the scenario.
void add_samples(const scenario& values, std::uint64_t samples, storage::poison_report& report) {
  const data::sample_schedule schedule{samples, values.train.global_batch, values.train.micro_batch,
                                       values.data.last};
  const auto window = schedule.window_of(report.iteration);
  const auto order = data::epoch_order(values.run.seed, window.epoch, samples, values.data.shuffle);
  report.epoch = window.epoch;
  const auto mine = data::share_of(schedule.micro_batches(window), report.rank, report.world_size);
  for (auto m = mine.begin; m < mine.end; ++m) {
    const auto positions = schedule.micro_batch(window, m);
    const auto at = [&](std::uint64_t position) {
      return order.begin() + static_cast<std::ptrdiff_t>(position);
    };
    report.batches.push_back({m, {at(positions.begin), at(positions.end)}});
  }
}

}  // namespace

void post_poison_bundle(const run_context& context, const recovery::report_poison& what) {
  context.storage->post([&context, what](storage::catalog&) {
    const auto& values = context.values;
    storage::poison_report report;
    report.run_id = context.run_id;
    report.seed = values.run.seed;
    report.rank = what.rank;
    report.world_size = values.cluster.ranks;
    report.iteration = what.iteration;
    report.times = what.times;
    report.cause = what.cause;
    report.stderr_tail = what.stderr_tail;
    report.skipped = what.skipped;
    report.micro_batch = what.micro_batch;
    add_samples(values, context.host->program().train_samples, report);
    if (auto written = storage::write_poison_bundle(context.directory->path(), report); !written) {
      context.record(event::kind::warning, "run",
                     "what it takes to reproduce iteration " +
                         std::to_string(what.iteration.value()) +
                         " could not be kept: " + written.error().describe());
    }
  });
}

result<std::vector<iteration_id>> windows_left_out(storage::catalog& catalog) {
  auto found = catalog.skipped_iterations();
  if (found && found->size() > protocol::max_left_out) {
    return fail(error_code::corrupt, "the catalog has " + std::to_string(found->size()) +
                                         " iterations that were left out, expected at most " +
                                         std::to_string(protocol::max_left_out));
  }
  return found;
}

}  // namespace ftrt::actors
