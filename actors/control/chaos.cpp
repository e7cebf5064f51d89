#include <actors/control/chaos.hpp>
#include <actors/control/chaos_orders.hpp>
#include <actors/control/handlers.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <charconv>
#include <storage/progress.hpp>

namespace ftrt::actors {
namespace {

constexpr std::chrono::milliseconds interval{1};

struct chaos_state {
  chaos_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  chaos_schedule* schedule = nullptr;
  std::uint64_t orders = 0;

  static constexpr const char* name = "chaos";

  void look() {
    for (const auto& fault : schedule->due(newest_commit(), host::monotonic_now())) cause(fault);
    self->delayed_send(self, interval, chaos_tick{});
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

  void cause(const chaos_entry& fault) {
    if (is_for_the_worker(fault)) {
      for (const auto rank : fault.ranks) order(rank_id{rank}, fault);
      return;
    }
    switch (fault.kind) {
      case chaos_kind::kill:
        for (const auto rank : fault.ranks) kill(rank_id{rank});
        break;
      case chaos_kind::stop:
        for (const auto rank : fault.ranks) stop(rank_id{rank});
        break;
      case chaos_kind::kill_actor:
        kill_actor(fault.actor);
        break;
      case chaos_kind::kill_zygote:
        context->record(event::kind::chaos, "zygote",
                        context->host->kill_zygote() ? "SIGKILL sent" : "there is none to kill");
        break;
      default:
        break;
    }
  }

  void kill(rank_id rank) { tell(rank, context->host->injure(rank, "chaos"), "SIGKILL", "kill"); }
  void stop(rank_id rank) { tell(rank, context->host->stop_worker(rank), "SIGSTOP", "stop"); }

  void tell(rank_id rank, bool done, const std::string& signal, const std::string& verb) const {
    context->record(
        event::kind::chaos, "trainer:" + std::to_string(rank.value()),
        done ? signal + " sent to its worker" : "its worker is dead already: nothing to " + verb,
        rank);
  }

  // The worker itself does it, at the very iteration.
  void order(rank_id rank, const chaos_entry& fault) {
    const auto what = order_of(fault, rank, ++orders);
    const auto trainer = context->actors.trainer(rank);
    if (trainer) self->send(trainer, tell_worker{what});
    context->record(
        event::kind::chaos, "trainer:" + std::to_string(rank.value()),
        trainer ? describe(what) + " is ordered" : "it has no worker: nothing to injure", rank);
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
  return system.spawn(chaos_behavior, &context, &schedule);
}

}  // namespace ftrt::actors
