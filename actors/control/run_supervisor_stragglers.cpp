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

}  // namespace

void run_supervisor_state::look_for_stragglers() {
  const auto& now = machine->current();
  const auto time = host::monotonic_now();
  if (now.at != recovery::phase::training || time < stragglers_due) return;
  stragglers_due = time + look_interval;
  auto found = stragglers->look(now.generation, time);
  if (!found) return;
  for (const auto& fine : found->restored) {
    context->record(event::kind::straggler, trainer_of(fine.rank),
                    "computes about as fast as the others again", fine.rank);
  }
  for (const auto& slow : found->named) {
    context->record(event::kind::straggler, trainer_of(slow.rank),
                    describe(slow) + ", since iteration " + std::to_string(slow.since.value()) +
                        (slow.replaced ? "; a new process has not helped, so it stays" : ""),
                    slow.rank);
  }
  tell_speeds();
  if (context->values.supervision.on_straggler == straggler_policy::replace) replace_slowest();
}

// One at a time: the others are compared anew without it.
void run_supervisor_state::replace_slowest() {
  auto slow = stragglers->watch().current();
  std::erase_if(slow, [](const auto& each) { return each.replaced; });
  if (slow.empty() || !may_replace()) return;
  const auto slowest = std::ranges::max(slow, {}, &recovery::straggler::compute);
  context->record(event::kind::straggler, trainer_of(slowest.rank), "a new process takes its place",
                  slowest.rank);
  stragglers->watch().replaced(slowest.rank);
  const auto& member = machine->current().ranks[slowest.rank.value()];
  // That it died is what the machine hears of it.
  context->host->kill_worker(slowest.rank, member.incarnation, "straggler: " + describe(slowest));
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

// Losses that nobody chose need the budget more.
bool run_supervisor_state::may_replace() const {
  const auto& now = machine->current();
  return !now.stop_wanted && now.unrecovered.empty() &&
         2 * (now.restarts.size() + 1) <= machine->limits().max_restarts;
}

}  // namespace ftrt::actors
