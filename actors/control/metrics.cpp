#include <actors/control/handlers.hpp>
#include <actors/control/metrics.hpp>
#include <actors/control/ring_follower.hpp>
#include <actors/control/status_report.hpp>
#include <actors/host/clock.hpp>
#include <actors/metrics/series.hpp>
#include <algorithm>
#include <bit>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cmath>
#include <storage/progress.hpp>

namespace ftrt::actors {
namespace {

constexpr std::chrono::milliseconds interval{100};

struct metrics_state {
  metrics_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  std::optional<ring_follower> rings;
  std::vector<host::series_points> batch;
  std::optional<status_report> status;
  std::uint64_t checkpoints_shown = 0;
  std::uint64_t skipped_in_a_row = 0;
  std::uint64_t skipped = 0;
  std::uint64_t shed = 0;  // points, since it was last told of

  static constexpr const char* name = "metrics";

  void look() {
    drain();
    status->refresh(host::monotonic_now());
    self->delayed_send(self, interval, tick{});
  }

  void drain() {
    for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
      rings->read(rank_id{rank}, [this](const storage::progress_record& record) {
        if (context->board->count(record)) show(record);
      });
    }
    if (context->series != nullptr && !batch.empty()) write_series();
    batch.clear();
    context->observer->post(context->board->latest());
  }

  // Where the disk hangs, points are all that is given up.
  void write_series() {
    const auto count = batch.size();
    const bool taken = context->storage->post_if_room(
        [series = context->series, points = std::exchange(batch, {})](storage::catalog&) {
          series->write(points);
        });
    if (!taken) shed += count;
    if (!taken || shed == 0) return;
    context->record(
        event::kind::warning, "metrics",
        std::to_string(shed) + " points of the series were shed: the disk was too slow");
    shed = 0;
  }

  // The scaler of fp16 skips steps as a matter of course; anything else is news, told less and less
  // often where it does not end.
  void tell_skipped(const storage::progress_record& record) {
    if (context->values.train.amp == amp_mode::fp16 || !std::has_single_bit(++skipped)) return;
    context->record(event::kind::not_finite, "run",
                    "the loss or a gradient was not finite: the optimizer step was skipped (" +
                        std::to_string(skipped) + " so far)",
                    std::nullopt, iteration_id{record.iteration});
  }

  // A window that all ranks leave out has an event of its own.
  [[nodiscard]] bool is_left_out(const storage::progress_record& record) const {
    return std::ranges::binary_search(context->board->left_out(), iteration_id{record.iteration});
  }

  void show(const storage::progress_record& record) {
    if (record.skipped != 0 && !is_left_out(record)) tell_skipped(record);
    const bool is_evaluation = record.kind == storage::record_kind::evaluation;
    if (!is_evaluation) watch_skips(record);
    if (is_evaluation) {
      char text[80];
      std::snprintf(text, sizeof text, "test accuracy %.2f %%, test loss %.4f",
                    100 * record.accuracy,
                    std::isnan(record.loss) ? std::abs(record.loss) : record.loss);
      context->record(event::kind::evaluated, "run", text, std::nullopt,
                      iteration_id{record.iteration});
    } else if (record.iteration % context->values.metrics.every_iterations != 0) {
      return;
    }
    host::series_points points{generation_id{record.generation}, iteration_id{record.iteration},
                               metrics::points_of(record)};
    if (!is_evaluation) add_figures_of_the_run(points.points);
    batch.push_back(std::move(points));
  }

  // A loss scaler skips a step now and then; a run that diverged skips all of them.
  void watch_skips(const storage::progress_record& record) {
    skipped_in_a_row = record.skipped != 0 ? skipped_in_a_row + 1 : 0;
    if (skipped_in_a_row < 10 || (skipped_in_a_row & (skipped_in_a_row - 1)) != 0) return;
    context->record(event::kind::warning, "run",
                    std::to_string(skipped_in_a_row) +
                        " optimizer steps in a row were skipped: gradients are not finite; has "
                        "the run diverged (train.lr too high)?",
                    std::nullopt, iteration_id{record.iteration});
  }

  void add_figures_of_the_run(std::vector<metrics::scalar>& points) {
    const auto summary = context->board->summary();
    points.push_back({metrics::tags::recoveries, static_cast<double>(summary.recoveries.size())});
    if (summary.checkpoints_committed != checkpoints_shown) {
      checkpoints_shown = summary.checkpoints_committed;
      points.push_back({metrics::tags::checkpoint_ms, context->board->last_checkpoint_ms()});
    }
  }
};

metrics_actor::behavior_type metrics_behavior(metrics_actor::stateful_pointer<metrics_state> self,
                                              const run_context* context) {
  install_default_handlers(self, "metrics");
  self->state.self = self;
  self->state.context = context;
  self->state.status.emplace(*context);
  self->state.rings.emplace(*context);
  // The run is over: what the rings still hold belongs to it.
  self->set_exit_handler([self](caf::scheduled_actor*, caf::exit_msg& message) {
    if (message.reason == caf::exit_reason::user_shutdown) self->state.drain();
    if (message.reason) self->quit(std::move(message.reason));
  });
  self->state.look();
  return {[self](tick) { self->state.look(); }};
}

}  // namespace

metrics_actor spawn_metrics(caf::actor_system& system, const run_context& context) {
  return system.spawn(metrics_behavior, &context);
}

}  // namespace ftrt::actors
