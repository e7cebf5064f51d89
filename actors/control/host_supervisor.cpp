#include <actors/control/chaos.hpp>
#include <actors/control/chaos_orders.hpp>
#include <actors/control/checkpoint.hpp>
#include <actors/control/handlers.hpp>
#include <actors/control/host_supervisor.hpp>
#include <actors/control/metrics.hpp>
#include <actors/control/restart_budget.hpp>
#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

namespace ftrt::actors {
namespace {

// Who died, as told by the address in a DOWN.
struct child {
  enum class role { run_supervisor, checkpoint, metrics, chaos, trainer } role;
  rank_id rank;
  incarnation_id incarnation;
};

std::string name_of(const child& who) {
  switch (who.role) {
    case child::role::run_supervisor:
      return "run_supervisor";
    case child::role::checkpoint:
      return "checkpoint";
    case child::role::metrics:
      return "metrics";
    case child::role::chaos:
      return "chaos";
    case child::role::trainer:
      return "trainer:" + std::to_string(who.rank.value());
  }
  return "?";
}

std::string describe(const caf::error& reason) {
  if (reason == caf::exit_reason::kill) return "killed";
  return "ended with code " + std::to_string(static_cast<int>(reason.code()));
}

struct dead_child {
  child who;
  std::string cause;
  std::chrono::nanoseconds died_at{};  // as the DOWN tells
};

struct host_supervisor_state {
  host_supervisor_actor::pointer self = nullptr;
  run_context* context = nullptr;
  host_supervisor_options options;
  std::map<caf::actor_addr, child> children;
  std::map<std::string, restart_budget> budgets;  // by name
  std::map<std::uint64_t, dead_child> waiting;    // for their restart
  std::uint64_t deaths = 0;
  bool ended = false;

  static constexpr const char* name = "host_supervisor";

  caf::actor_system& system() { return self->system(); }

  template <class Handle>
  void keep(const Handle& actor, child who) {
    children[actor.address()] = who;
    self->monitor(actor);
    if constexpr (!std::is_same_v<Handle, trainer_actor>) context->actors.set(actor);
  }

  // Those that outlived the host_supervisor before this one stay; of one that did not, the DOWN
  // comes at once.
  template <class Spawn>
  void keep_or_spawn(const child& who, const Spawn& spawn) {
    using handle = std::invoke_result_t<Spawn>;
    const auto living = context->actors.get<handle>();
    keep(living ? living : spawn(), who);
  }

  void start_all() {
    keep_or_spawn({child::role::checkpoint, {}, {}},
                  [&] { return spawn_checkpoint(system(), *context); });
    keep_or_spawn({child::role::metrics, {}, {}},
                  [&] { return spawn_metrics(system(), *context); });
    // Before there are workers: some faults are of their very start.
    if (!options.chaos->empty()) {
      keep_or_spawn({child::role::chaos, {}, {}},
                    [&] { return spawn_chaos(system(), *context, *options.chaos); });
    }
    keep_or_spawn({child::role::run_supervisor, {}, {}},
                  [&] { return spawn_run_supervisor(system(), *context, options.beginning); });
    for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
      if (const auto worker = context->host->worker(rank_id{rank})) take_over_worker(*worker);
    }
  }

  // What the host table told the host_supervisor before this one may be lost with it.
  void take_over_worker(const host::worker_entry& worker) {
    if (worker.dead) return tell_if_dead(worker.rank, worker.incarnation);
    if (const auto trainer = context->actors.trainer(worker.rank, worker.incarnation)) {
      return keep(trainer, {child::role::trainer, worker.rank, worker.incarnation});
    }
    if (worker.pid > 0) worker_started(worker.rank, worker.incarnation);
  }

  // ---- processes --------------------------------------------------------------------------------

  void worker_started(rank_id rank, incarnation_id incarnation) {
    const auto worker = context->host->worker(rank, incarnation);
    if (!worker || has_trainer(rank, incarnation)) return;
    context->storage->post(
        [rank, incarnation, pid = worker->pid.load()](storage::catalog& catalog) {
          host::warn_of_failure(
              "catalog", catalog.begin_incarnation(rank, incarnation, pid, host::unix_now_ms()));
        });
    context->board->set_ranks_alive(context->host->alive());
    start_trainer(rank, incarnation);
  }

  // False: its worker is gone, and the run_supervisor was told.
  bool start_trainer(rank_id rank, incarnation_id incarnation) {
    auto socket = context->host->open_control_socket(rank, incarnation);
    if (!socket) {
      // Without a socket a worker is lost, dead or not.
      context->host->kill_worker(rank, incarnation, socket.error().describe());
      tell_if_dead(rank, incarnation);
      return false;
    }
    const auto trainer =
        options.make_trainer(system(), *context, rank, incarnation, std::move(*socket));
    context->actors.set_trainer(rank, incarnation, trainer);
    keep(trainer, {child::role::trainer, rank, incarnation});
    // Before anybody can tell it to join.
    settle_orders(*context);
    for (const auto& order : context->orders->of(rank)) self->send(trainer, tell_worker{order});
    context->post<run_supervisor_actor>(trainer_ready{rank, incarnation, trainer});
    return true;
  }

  [[nodiscard]] bool has_trainer(rank_id rank, incarnation_id incarnation) const {
    for (const auto& [address, who] : children) {
      if (who.role == child::role::trainer && who.rank == rank && who.incarnation == incarnation) {
        return true;
      }
    }
    return false;
  }

  void tell_if_dead(rank_id rank, incarnation_id incarnation) const {
    const auto worker = context->host->worker(rank, incarnation);
    if (!worker || worker->dead) {
      context->post<run_supervisor_actor>(worker_exited{rank, incarnation});
    }
  }

  void worker_died(rank_id rank, incarnation_id incarnation) {
    // The trainer's DOWN is the news; where there is no trainer, this is.
    if (!has_trainer(rank, incarnation)) return tell_if_dead(rank, incarnation);
    if (const auto trainer = context->actors.trainer(rank, incarnation)) {
      self->send(trainer, worker_exited{rank, incarnation});
    }
  }

  // ---- actors -----------------------------------------------------------------------------------

  void down(const caf::down_msg& message) {
    const auto found = children.find(message.source);
    if (found == children.end()) return;
    const child who = found->second;
    children.erase(found);
    if (ended) return;
    if (who.role == child::role::trainer && is_worker_lost(message.reason)) return;
    bury({who, describe(message.reason), host::monotonic_now()});
  }

  // Restarts it now, later, or never: one that dies again and again would do nothing else.
  void bury(dead_child dead) {
    const auto& limits = context->values.supervision;
    auto [budget, is_new] = budgets.try_emplace(name_of(dead.who), limits.max_restarts,
                                                limits.window, limits.backoff_max);
    const auto delay = budget->second.next(dead.died_at);
    if (!delay) {
      return run_over({recovery::run_outcome::failed,
                       name_of(dead.who) + " died more than " +
                           std::to_string(limits.max_restarts) +
                           " times within supervision.window; last: " + dead.cause,
                       {}});
    }
    const auto number = ++deaths;
    waiting[number] = std::move(dead);
    if (delay->count() == 0) return restart_now(number);
    self->delayed_send(self, *delay, restart_due{number});
  }

  void restart_now(std::uint64_t number) {
    const auto dead = waiting.extract(number);
    if (dead.empty() || ended) return;
    const auto& [who, cause, died_at] = dead.mapped();
    if (!restart(who)) return;
    const std::chrono::duration<double, std::milli> took = host::monotonic_now() - died_at;
    context->record(event::kind::actor_restarted, name_of(who), cause,
                    who.role == child::role::trainer ? std::optional{who.rank} : std::nullopt);
    context->board->add(actor_restart_record{name_of(who), cause, took.count()});
  }

  // False: nothing was restarted, as a trainer's worker had died as well.
  bool restart(const child& who) {
    switch (who.role) {
      case child::role::checkpoint:
        keep(spawn_checkpoint(system(), *context), who);
        return true;
      case child::role::metrics:
        keep(spawn_metrics(system(), *context), who);
        return true;
      case child::role::chaos:
        keep(spawn_chaos(system(), *context, *options.chaos), who);
        return true;
      case child::role::run_supervisor:
        keep(spawn_run_supervisor(system(), *context, take_over()), who);
        return true;
      case child::role::trainer: {
        const auto worker = context->host->worker(who.rank, who.incarnation);
        if (worker && !worker->dead) return start_trainer(who.rank, who.incarnation);
        tell_if_dead(who.rank, who.incarnation);
        return false;
      }
    }
    return false;
  }

  [[nodiscard]] recovery::take_over take_over() const {
    const auto membership = context->board->current();
    recovery::take_over take_over;
    take_over.last_generation = membership.generation;
    take_over.branch = membership.branch;
    take_over.branch_since = membership.branch_since;
    take_over.agreed = context->board->agreed();
    take_over.not_beyond = context->board->disputed();
    take_over.last_committed = iteration_id{context->board->last_iteration()};
    take_over.left_out = context->board->left_out();
    take_over.counts = context->counts->get();
    for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
      take_over.incarnations.push_back(context->host->newest_incarnation(rank_id{rank}));
    }
    return take_over;
  }

  void run_over(const recovery::end_run& how) {
    if (ended) return;
    ended = true;
    options.on_end(how);
  }
};

host_supervisor_actor::behavior_type host_supervisor_behavior(
    host_supervisor_actor::stateful_pointer<host_supervisor_state> self, run_context* context,
    const host_supervisor_options& options) {
  install_default_handlers(self, "host_supervisor");
  auto& state = self->state;
  state.self = self;
  state.context = context;
  state.options = options;
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.down(message); });
  state.start_all();
  return {
      [self](const worker_started& w) { self->state.worker_started(w.rank, w.incarnation); },
      [self](const worker_start_failed& failed) {
        self->state.context->post<run_supervisor_actor>(failed);
      },
      [self](const worker_exited& w) { self->state.worker_died(w.rank, w.incarnation); },
      [self](const restart_due& due) { self->state.restart_now(due.child); },
      [self](const run_ended& end) { self->state.run_over(end.how); },
  };
}

}  // namespace

host_supervisor_actor spawn_host_supervisor(caf::actor_system& system, run_context& context,
                                            host_supervisor_options options) {
  return system.spawn(host_supervisor_behavior, &context, std::move(options));
}

}  // namespace ftrt::actors
