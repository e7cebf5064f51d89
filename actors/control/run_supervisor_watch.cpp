// What the progress pages say, turned into inputs of the recovery machine: commits, states that
// agree or do not, and hangs.

#include <actors/control/processor_use.hpp>
#include <actors/control/run_supervisor.hpp>
#include <actors/control/run_supervisor_state.hpp>
#include <actors/host/clock.hpp>
#include <storage/progress.hpp>

namespace ftrt::actors {
namespace {

constexpr std::chrono::milliseconds look_interval{20};
// A recovery is over with the first commit after it, so that one is looked for closely; not where
// it takes long anyway. When it was is told by the diary.
constexpr std::chrono::milliseconds close_interval{4};
constexpr std::chrono::seconds long_recovery{10};
// A checkpoint actor that was restarted has forgotten what is awaited.
constexpr std::chrono::milliseconds ask_again{50};

}  // namespace

recovery::watch_limits watch_limits_of(const scenario& values, std::uint64_t state_bytes) {
  const auto& supervision = values.supervision;
  recovery::watch_limits limits;
  limits.enabled = supervision.hang_detection;
  limits.floor = supervision.hang_floor;
  limits.factor = supervision.hang_factor;
  limits.first = supervision.hang_timeout_first;
  limits.join = supervision.hang_timeout_join;
  limits.load = supervision.hang_timeout_load;
  limits.evaluate = supervision.hang_timeout_evaluate;
  limits.save = supervision.hang_timeout_save;
  limits.state_bytes = state_bytes;
  limits.interval = look_interval;
  return limits;
}

void run_supervisor_state::look_at_progress() {
  const auto seen = sight();
  if (!machine->current().stop_wanted) look_for_stop();
  report_commits(seen);
  compare_digests();
  look_for_hangs(seen);
  look_for_stragglers(seen);
  const auto time = host::monotonic_now();
  const bool finishing = machine->current().at == recovery::phase::finishing;
  if (finishing && awaited_checkpoint && time - asked_at >= ask_again) {
    asked_at = time;
    context->post<checkpoint_actor>(await_checkpoint{*awaited_checkpoint});
  }
  if (outcome) context->post<host_supervisor_actor>(run_ended{*outcome});
  const auto& lost = machine->current().unrecovered;
  const bool looks_closely = !lost.empty() && time - lost.back().detected_at < long_recovery;
  self->delayed_send(self, looks_closely ? close_interval : look_interval, tick{});
}

// One that was asked for while this actor came up was sent to nobody.
void run_supervisor_state::look_for_stop() {
  if (const auto reason = context->board->stop_reason()) feed(recovery::stop_requested{*reason});
}

std::vector<recovery::sighting> run_supervisor_state::sight() const {
  std::vector<recovery::sighting> seen(context->values.cluster.ranks);
  for (std::uint32_t rank = 0; rank < seen.size(); ++rank) {
    const auto worker = context->host->worker(rank_id{rank});
    if (!worker || worker->dead) continue;
    seen[rank] = {true, storage::progress_reader{worker->progress}.view(), std::nullopt};
    if (watch->wants_processor_use(rank_id{rank}, seen[rank].page)) {
      seen[rank].processor = processor_use_of(*worker, seen[rank].page);
    }
  }
  return seen;
}

// The newest commit of the group.
void run_supervisor_state::report_commits(const std::vector<recovery::sighting>& seen) {
  const auto& now = machine->current();
  iteration_id newest;
  rank_id farthest;
  for (std::uint32_t rank = 0; rank < seen.size(); ++rank) {
    const auto& page = seen[rank].page;
    if (!seen[rank].alive || page.generation != now.generation || page.committed <= newest)
      continue;
    newest = page.committed;
    farthest = rank_id{rank};
  }
  if (now.at != recovery::phase::training || newest <= reported) return;
  reported = newest;
  const auto first_at = now.unrecovered.empty() ? std::nullopt : first_commit(farthest);
  feed(recovery::progressed{now.generation, newest, first_at});
}

// When the generation's first commit was, by a rank's diary; nullopt where it is not written there
// yet, or no more.
std::optional<recovery::time_point> run_supervisor_state::first_commit(rank_id rank) const {
  constexpr std::uint64_t newest_records = 16;
  const auto worker = context->host->worker(rank);
  if (!worker) return std::nullopt;
  storage::progress_reader diary{worker->progress};
  diary.seek_newest(newest_records);
  const auto first = machine->current().from.next();
  while (const auto record = diary.next()) {
    if (record->kind == storage::record_kind::iteration && record->iteration == first.value() &&
        record->generation == machine->current().generation.value()) {
      return host::as_seen_here(std::chrono::nanoseconds{record->committed_ns});
    }
  }
  return std::nullopt;
}

// Do all ranks still hold one state?
void run_supervisor_state::compare_digests() {
  const auto& now = machine->current();
  if (now.at != recovery::phase::training && now.at != recovery::phase::taking_over) return;
  const auto generation = now.generation;
  const auto found = digests->look(generation);
  if (found.agreed) {
    context->board->set_agreed(found.agreed->iteration);
    feed(recovery::states_agreed{generation, found.agreed->iteration});
  }
  if (found.diverged) {
    feed(recovery::state_diverged{generation, found.diverged->iteration, found.diverged->ranks});
  }
}

// Who hangs is killed; that it died is what the machine hears of it.
void run_supervisor_state::look_for_hangs(const std::vector<recovery::sighting>& seen) {
  const auto& now = machine->current();
  const auto found = watch->look(host::monotonic_now(), now, seen);
  for (const auto& culprit : found.culprits) {
    context->host->kill_worker(culprit.rank, now.ranks[culprit.rank.value()].incarnation,
                               culprit.reason);
  }
  for (const auto& each : found.starved) {
    context->record(event::kind::warning, "trainer:" + std::to_string(each.rank.value()),
                    each.reason + ": the machine has too much to do", each.rank);
  }
  if (!found.stuck) return;
  context->record(event::kind::warning, "run", *found.stuck + ": the communicator is made anew");
  feed(recovery::peers_reported_lost{now.generation, {}});
}

}  // namespace ftrt::actors
