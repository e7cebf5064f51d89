#include <unistd.h>
#include <actors/control/chaos.hpp>
#include <actors/control/chaos_ledger.hpp>
#include <actors/control/chaos_orders.hpp>
#include <actors/control/handlers.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <charconv>
#include <csignal>
#include <storage/progress.hpp>

namespace ftrt::actors {
namespace {

// Between two looks at what is due. Each takes a core some 60 us, and those are the ranks' cores.
constexpr std::chrono::nanoseconds shortest_pause = std::chrono::milliseconds{1};
constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds{20};

std::string trainer_of(rank_id rank) {
  return "trainer:" + std::to_string(rank.value());
}

// On record before it is caused, so that it is not caused again by who resumes the run.
void put_on_record(const run_context& context, const due_fault& fault) {
  context.record_now(event::kind::chaos, subject_of_entry(fault.entry), describe(fault.what),
                     std::nullopt, iteration_id{fault.what.at_iteration.value_or(0)});
}

// The worker itself does it, at the very iteration.
void give_orders(const run_context& context, const due_fault& fault) {
  for (const auto number : fault.what.ranks) {
    const rank_id rank{number};
    const auto order = context.orders->add(fault.entry, rank, order_of(fault.what, rank));
    // One that is of a worker's start waits for the next one that starts.
    if (fault.what.in == chaos_phase::start) continue;
    const auto trainer = context.actors.trainer(rank);
    if (trainer) caf::anon_send(trainer, tell_worker{order});
  }
}

struct chaos_state {
  chaos_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  chaos_schedule* schedule = nullptr;

  static constexpr const char* name = "chaos";

  iteration_id seen;
  std::chrono::nanoseconds seen_at{};
  // An iteration's least time between two looks: after a recovery, whose time says nothing of
  // iterations, they come as fast as ever. 0: not known.
  std::chrono::nanoseconds step{};
  std::chrono::nanoseconds last_pause = shortest_pause;

  void look() {
    settle_orders(*context, true);
    const auto committed = newest_commit();
    const auto looked_at = now();
    auto faults = schedule->due(committed, looked_at);
    // What is due together happens together: nothing does once this process is gone.
    std::ranges::stable_partition(faults, [](const due_fault& fault) {
      return fault.what.kind != chaos_kind::kill_supervisor;
    });
    for (const auto& fault : faults) cause(fault);
    learn_pace(committed, looked_at);
    last_pause = pause(committed, looked_at);
    self->delayed_send(self, last_pause, chaos_tick{});
  }

  void learn_pace(iteration_id committed, std::chrono::nanoseconds looked_at) {
    if (committed == seen) return;
    if (committed > seen && seen.value() > 0) {
      const auto count = static_cast<std::int64_t>(committed.value() - seen.value());
      const auto now_takes = (looked_at - seen_at) / count;
      step = step.count() == 0 ? now_takes : std::min(step, now_takes);
    }
    seen = committed;
    seen_at = looked_at;
  }

  // Half of what is left until the next fault at the fastest pace, lest it comes late, and at most
  // twice the last pause: a first iteration may be slow. Orders are settled as soon as obeyed.
  [[nodiscard]] std::chrono::nanoseconds pause(iteration_id committed,
                                               std::chrono::nanoseconds looked_at) const {
    if (!context->orders->empty()) return shortest_pause;
    const auto left = schedule->next_due(committed, looked_at, step) - looked_at;
    return std::clamp(std::min(left / 2, 2 * last_pause), shortest_pause, longest_pause);
  }

  // The one clock that no fault lets jump: each jump would be followed by the next at once.
  [[nodiscard]] static std::chrono::nanoseconds now() {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  [[nodiscard]] iteration_id newest_commit() const {
    iteration_id newest;
    for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
      const auto worker = context->host->worker(rank_id{rank});
      if (!worker) continue;
      newest = std::max(newest, storage::progress_reader{worker->progress}.view().committed);
    }
    return newest;
  }

  void cause(const due_fault& fault) {
    put_on_record(*context, fault);
    if (is_for_the_worker(fault.what)) return give_orders(*context, fault);
    switch (fault.what.kind) {
      case chaos_kind::kill:
        for (const auto rank : fault.what.ranks) kill(rank_id{rank});
        break;
      case chaos_kind::stop:
        for (const auto rank : fault.what.ranks) stop(rank_id{rank});
        break;
      case chaos_kind::kill_actor:
        kill_actor(fault.what.actor);
        break;
      case chaos_kind::kill_zygote:
        context->record(event::kind::chaos, "zygote",
                        context->host->kill_zygote() ? "SIGKILL sent" : "there is none to kill");
        break;
      case chaos_kind::kill_supervisor:
        ::kill(::getpid(), SIGKILL);
        break;
      case chaos_kind::clock_jump:
        host::jump(fault.what.by.value_or(std::chrono::nanoseconds{0}));
        break;
      case chaos_kind::nan:
      case chaos_kind::flip_bit:
      case chaos_kind::slow:
      case chaos_kind::poison:
        break;  // the worker's
    }
  }

  void kill(rank_id rank) { tell(rank, context->host->injure(rank, "chaos"), "SIGKILL", "kill"); }
  void stop(rank_id rank) { tell(rank, context->host->stop_worker(rank), "SIGSTOP", "stop"); }

  void tell(rank_id rank, bool done, const std::string& signal, const std::string& verb) const {
    context->record(
        event::kind::chaos, trainer_of(rank),
        done ? signal + " sent to its worker" : "its worker is dead already: nothing to " + verb,
        rank);
  }

  void kill_actor(const std::string& name_of_actor) {
    context->record(event::kind::chaos, name_of_actor, "actor killed");
    if (name_of_actor == "checkpoint") return end<checkpoint_actor>();
    if (name_of_actor == "metrics") return end<metrics_actor>();
    if (name_of_actor == "run_supervisor") return end<run_supervisor_actor>();
    if (name_of_actor == "host_supervisor") return end<host_supervisor_actor>();
    constexpr std::string_view prefix = "trainer:";
    std::uint32_t rank = 0;
    if (name_of_actor.starts_with(prefix) &&
        std::from_chars(name_of_actor.data() + prefix.size(),
                        name_of_actor.data() + name_of_actor.size(), rank)
                .ec == std::errc{}) {
      if (const auto trainer = context->actors.trainer(rank_id{rank})) end(trainer);
    }
  }

  template <class Handle>
  void end() const {
    if (const auto actor = context->actors.get<Handle>()) end(actor);
  }
  template <class Handle>
  void end(const Handle& actor) const {
    self->send_exit(actor, caf::exit_reason::kill);
  }
};

chaos_actor::behavior_type chaos_behavior(chaos_actor::stateful_pointer<chaos_state> self,
                                          const run_context* context, chaos_schedule* schedule) {
  install_default_handlers(self, "chaos");
  self->state.self = self;
  self->state.context = context;
  self->state.schedule = schedule;
  self->state.look();
  return {[self](chaos_tick) { self->state.look(); }};
}

}  // namespace

chaos_actor spawn_chaos(caf::actor_system& system, const run_context& context,
                        chaos_schedule& schedule) {
  // What says no time is of workers' phases, the first of which come with the first workers.
  for (const auto& fault : schedule.due_at_once()) {
    put_on_record(context, fault);
    give_orders(context, fault);
  }
  // On a thread of its own: it writes to the log before it acts, and is as exact as a look each
  // millisecond can be, once a fault is near.
  return system.spawn<caf::detached>(chaos_behavior, &context, &schedule);
}

}  // namespace ftrt::actors
