// Ranks that compute much slower than the others: told, and replaced where the scenario says so.

#include <actors/control/run_supervisor_state.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>

namespace ftrt::actors {
namespace {

constexpr std::chrono::milliseconds look_interval{250};

double to_ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string trainer_of(rank_id rank) {
  return "trainer:" + std::to_string(rank.value());
}

// Before this iteration's word is decided: nobody evaluates or copies a snapshot, and nobody will
// before the one that is killed has contributed.
bool all_iterate(const std::vector<recovery::sighting>& seen, generation_id generation) {
  return std::ranges::all_of(seen, [&](const recovery::sighting& each) {
    return each.alive && each.page.generation == generation &&
           (each.page.phase == storage::train_phase::compute ||
            each.page.phase == storage::train_phase::all_reduce);
  });
}

// Where the scenario wants no spares, a fork is what every lost rank gets.
bool has_successor(const run_context& context) {
  if (context.values.supervision.spares > 0) return !context.host->warm_spares().empty();
  return context.host->zygote_pid() > 0;
}

}  // namespace

void run_supervisor_state::look_for_stragglers(const std::vector<recovery::sighting>& seen) {
  const auto& now = machine->current();
  const auto time = host::monotonic_now();
  if (now.at != recovery::phase::training || time < stragglers_due) return;
  stragglers_due = time + look_interval;
  if (const auto found = stragglers->look(now.generation, time)) tell_stragglers(*found);
  if (machine->limits().replace_stragglers) offer_straggler(seen);
}

void run_supervisor_state::tell_stragglers(const recovery::straggler_watch::judgement& found) {
  for (const auto& fine : found.restored) {
    context->record(event::kind::straggler, trainer_of(fine.rank),
                    "computes about as fast as the others again", fine.rank);
  }
  for (const auto& slow : found.named) {
    context->record(event::kind::straggler, trainer_of(slow.rank),
                    describe(slow) + ", since iteration " + std::to_string(slow.since.value()) +
                        (slow.replaced ? "; a new process has not helped, so it stays" : ""),
                    slow.rank);
  }
  tell_speeds();
}

// Whether and when it is replaced is the machine's decision.
void run_supervisor_state::offer_straggler(const std::vector<recovery::sighting>& seen) {
  const auto slowest = stragglers->watch().candidate();
  if (!slowest) return;
  const auto& now = machine->current();
  const auto& member = now.ranks[slowest->rank.value()];
  feed(recovery::straggler_found{now.generation, slowest->rank, member.incarnation,
                                 describe(*slowest), all_iterate(seen, now.generation),
                                 has_successor(*context)});
  if (member.stands != recovery::standing::doomed) return;
  stragglers->watch().replaced(slowest->rank);
  tell_speeds();
}

void run_supervisor_state::tell_speeds() {
  host::run_board::speeds speeds;
  for (const auto time : stragglers->watch().compute_times()) {
    speeds.compute_ms.push_back(to_ms(time));
  }
  for (const auto& slow : stragglers->watch().current()) {
    speeds.stragglers.push_back({slow.rank.value(), to_ms(slow.compute), to_ms(slow.others),
                                 slow.since.value(), slow.replaced});
  }
  context->board->set_speed(std::move(speeds));
}

}  // namespace ftrt::actors
