#include <actors/control/status_report.hpp>
#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <storage/progress.hpp>
#include <storage/status_file.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

constexpr std::chrono::seconds interval{1};

rank_status status_of(const host::worker_entry& worker, std::chrono::nanoseconds now) {
  const auto page = storage::progress_reader{worker.progress}.view();
  rank_status rank;
  rank.rank = worker.rank.value();
  rank.incarnation = worker.incarnation.value();
  rank.pid = worker.pid;
  rank.alive = rank.pid > 0 && !worker.dead;
  rank.phase = storage::to_string(page.phase);
  rank.iteration = page.iteration.value();
  rank.committed = page.committed.value();
  rank.quiet_ms = (static_cast<double>(now.count()) - static_cast<double>(page.progress_ns)) / 1e6;
  return rank;
}

void add_figures(run_status& status, const host::run_board& board) {
  const auto latest = board.latest();
  const auto summary = board.summary();
  const auto membership = board.current();
  status.generation = membership.generation.value();
  status.branch = membership.branch.value();
  status.iteration = latest.iteration;
  status.total_iterations = latest.total_iterations;
  status.epoch = latest.epoch;
  status.train_loss = latest.train_loss;
  status.test_accuracy = latest.test_accuracy;
  status.samples_per_second = latest.samples_per_second;
  status.eta_seconds = latest.eta_seconds;
  status.last_checkpoint_iteration = summary.last_checkpoint_iteration;
  status.recoveries = summary.recoveries.size();
  status.actor_restarts = summary.actor_restarts.size();
}

}  // namespace

run_status status_of(const run_context& context) {
  run_status status;
  status.run.run_id = context.run_id;
  status.run.status = "running";
  status.written_ms = host::unix_now_ms();
  status.phase = context.board->phase();
  add_figures(status, *context.board);
  status.stop_reason = context.board->stop_reason().value_or("");
  const auto speed = context.board->speed();
  // As the workers' clocks have it.
  const auto now = host::monotonic_now() - host::as_seen_here(std::chrono::nanoseconds{0});
  for (std::uint32_t rank = 0; rank < context.values.cluster.ranks; ++rank) {
    const auto worker = context.host->worker(rank_id{rank});
    status.ranks.push_back(worker ? status_of(*worker, now) : rank_status{});
    auto& row = status.ranks.back();
    row.rank = rank;
    if (rank < speed.compute_ms.size()) row.compute_ms = speed.compute_ms[rank];
  }
  for (const auto pid : context.host->warm_spares()) status.spares.push_back(pid);
  status.stragglers = speed.stragglers;
  return status;
}

run_status final_status(const run_context& context, const run_summary& summary) {
  auto status = status_of(context);
  status.run.status = summary.status;
  status.phase = "ended";
  status.iteration = summary.iterations;
  status.eta_seconds = 0;
  status.error = summary.error;
  return status;
}

void status_report::refresh(std::chrono::nanoseconds now) {
  if (now < next_ || under_way_->exchange(true)) return;
  next_ = now + interval;
  context_->storage->post([status = status_of(*context_), folder = context_->directory->path(),
                           under_way = under_way_](storage::catalog&) {
    host::warn_of_failure("status", storage::write_status(folder, status));
    *under_way = false;
  });
}

}  // namespace ftrt::actors
