#include <actors/control/chaos_orders.hpp>
#include <algorithm>
#include <array>
#include <storage/progress.hpp>

namespace ftrt::actors {
namespace {

using protocol::injury_kind;
using protocol::injury_phase;
using protocol::injury_target;

injury_kind kind_of(chaos_kind kind) {
  switch (kind) {
    case chaos_kind::nan:
      return injury_kind::nan;
    case chaos_kind::flip_bit:
      return injury_kind::flip_bit;
    case chaos_kind::slow:
      return injury_kind::slow;
    case chaos_kind::stop:
      return injury_kind::stop;
    default:
      return injury_kind::kill;
  }
}

// The phases are the same ones, in the same order.
static_assert(static_cast<int>(chaos_phase::any) == static_cast<int>(injury_phase::none));
static_assert(static_cast<int>(chaos_phase::optimizer) ==
              static_cast<int>(injury_phase::optimizer));
static_assert(static_cast<int>(chaos_phase::stop) == static_cast<int>(injury_phase::stop));

std::string name_of(injury_phase phase) {
  constexpr std::array names{"any",  "all_reduce", "optimizer", "snapshot",
                             "join", "evaluate",   "start",     "stop"};
  return names.at(static_cast<std::size_t>(phase));
}

std::string what_happens(const protocol::injure& order) {
  const std::string where =
      order.target == injury_target::gradient ? " in a gradient" : " in a parameter";
  switch (order.kind) {
    case injury_kind::nan:
      return "a NaN" + where;
    case injury_kind::flip_bit:
      return "a flipped bit" + where;
    case injury_kind::slow:
      return "a pause of " + std::to_string(order.delay_ns / 1000) + " us before each micro-batch";
    case injury_kind::kill:
      return "SIGKILL in " + name_of(order.phase);
    case injury_kind::stop:
      return "SIGSTOP in " + name_of(order.phase);
  }
  return {};
}

std::string to_list(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

protocol::injure order_of(const chaos_entry& fault, rank_id rank) {
  protocol::injure order;
  order.kind = kind_of(fault.kind);
  order.target =
      fault.target == chaos_target::gradient ? injury_target::gradient : injury_target::parameter;
  order.iteration = iteration_id{fault.at_iteration.value_or(0)};
  order.seed = fault.seed + rank.value();
  order.phase = static_cast<injury_phase>(fault.in);
  const auto delay = fault.delay.value_or(std::chrono::nanoseconds{0});
  order.delay_ns = static_cast<std::uint64_t>(delay.count());
  order.iterations = fault.iterations.value_or(0);
  return order;
}

std::string describe(const protocol::injure& order) {
  std::string text = what_happens(order);
  if (order.kind == injury_kind::slow) {
    text += " from iteration " + std::to_string(order.iteration.value()) + " on";
    if (order.iterations > 0) text += ", for " + std::to_string(order.iterations) + " of them";
    return text;
  }
  if (order.iteration.value() == 0) return text;
  return text + " of iteration " + std::to_string(order.iteration.value());
}

std::string describe(const chaos_entry& fault) {
  if (is_for_the_worker(fault)) {
    return describe(order_of(fault, {})) + " is ordered of " + to_list(fault.ranks);
  }
  switch (fault.kind) {
    case chaos_kind::kill:
      return "SIGKILL of " + to_list(fault.ranks);
    case chaos_kind::stop:
      return "SIGSTOP of " + to_list(fault.ranks);
    case chaos_kind::kill_actor:
      return "kill of actor " + fault.actor;
    case chaos_kind::kill_zygote:
      return "SIGKILL of the zygote";
    case chaos_kind::kill_supervisor:
      return "SIGKILL of this process";
    case chaos_kind::clock_jump:
      return "the clocks jump by " +
             std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                fault.by.value_or(std::chrono::nanoseconds{0}))
                                .count()) +
             " ms";
    default:
      return {};
  }
}

void repeat_orders(const run_context& context, const chaos_schedule& schedule,
                   const std::vector<fault_history>& history) {
  for (std::size_t entry = 0; entry < history.size(); ++entry) {
    const auto& firings = history[entry].firings;
    for (std::size_t i = 0; i < firings.size(); ++i) {
      const auto fault = schedule.fault(entry, i, firings[i].iteration);
      if (!is_for_the_worker(fault)) break;
      for (const auto rank : fault.ranks) {
        if (firings[i].done.contains(rank)) continue;
        static_cast<void>(
            context.orders->add(entry, rank_id{rank}, order_of(fault, rank_id{rank})));
      }
    }
  }
}

namespace {

// Whoever settles an order, the mark is there before the order is gone: who finds no order any more
// finds the mark.
void mark_struck(const run_context& context, const host::worker_entry& worker,
                 const std::vector<std::uint64_t>& obeyed) {
  for (const auto& order : context.orders->of(worker.rank)) {
    const bool killed = order.kind == injury_kind::kill;
    if (!killed && order.kind != injury_kind::stop) continue;
    if (std::ranges::find(obeyed, order.number) == obeyed.end()) continue;
    context.host->note_struck(worker.rank, worker.incarnation, killed);
  }
}

}  // namespace

void settle_orders(const run_context& context, bool at_once) {
  if (context.orders->empty()) return;
  for (const auto& worker : context.host->workers()) {
    const auto obeyed = storage::progress_reader{worker->progress}.injuries();
    if (obeyed.empty()) continue;
    mark_struck(context, *worker, obeyed);
    for (const auto& order : context.orders->settle(worker->rank, obeyed)) {
      const auto text = describe(order.what) + ": its worker obeys";
      const auto subject = subject_of_entry(order.entry);
      if (at_once) {
        context.record_now(event::kind::chaos, subject, text, order.rank);
      } else {
        context.record(event::kind::chaos, subject, text, order.rank);
      }
    }
  }
}

}  // namespace ftrt::actors
