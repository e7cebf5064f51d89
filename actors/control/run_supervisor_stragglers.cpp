// Ranks that compute much slower than the others: told.

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

}  // namespace

void run_supervisor_state::look_for_stragglers() {
  const auto& now = machine->current();
  const auto time = host::monotonic_now();
  if (now.at != recovery::phase::training || time < stragglers_due) return;
  stragglers_due = time + look_interval;
  auto found = stragglers->look(now.generation, time);
  if (!found) return;
  for (const auto& fine : found->restored) {
    context->record(event::kind::warning, trainer_of(fine.rank),
                    "computes about as fast as the others again", fine.rank);
  }
  for (const auto& slow : found->named) {
    context->record(event::kind::warning, trainer_of(slow.rank),
                    describe(slow) + ", since iteration " + std::to_string(slow.since.value()),
                    slow.rank);
  }
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
