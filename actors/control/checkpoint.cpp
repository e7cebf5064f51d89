#include <actors/control/checkpoint.hpp>
#include <actors/control/handlers.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <storage/snapshot.hpp>
#include <tuple>

namespace ftrt::actors {

std::optional<snapshot_set> snapshot_collector::add(const protocol::snapshot_ready& ready,
                                                    snapshot_part part) {
  if (ready.parts == 0 || ready.part >= ready.parts) return std::nullopt;
  const key id{ready.generation, ready.branch, ready.iteration};
  auto& set = sets_[id];
  if (set.parts.empty()) {
    set = {ready.generation, ready.branch, ready.iteration,
           std::vector<snapshot_part>(ready.parts)};
  }
  if (set.parts.size() != ready.parts) return std::nullopt;
  set.parts[ready.part] = std::move(part);
  for (const auto& known : set.parts) {
    if (!known.worker) {
      if (sets_.size() > max_sets) sets_.erase(sets_.begin());
      return std::nullopt;
    }
  }
  return std::move(sets_.extract(id).mapped());
}

namespace {

constexpr std::chrono::milliseconds look_again{100};

struct checkpoint_state {
  checkpoint_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  snapshot_collector collector;
  std::set<std::pair<branch_id, iteration_id>> posted;  // jobs that were begun
  std::optional<iteration_id> awaited;

  static constexpr const char* name = "checkpoint";

  void snapshot(rank_id rank, incarnation_id incarnation, const protocol::snapshot_ready& ready) {
    auto worker = context->host->worker(rank, incarnation);
    // A part is its rank's own, and as many as there are ranks.
    if (!worker || ready.part != rank.value() || ready.parts != context->values.cluster.ranks) {
      return;
    }
    if (!ready.final && !due(ready.iteration)) return;  // it stays in memory only
    if (auto set = collector.add(ready, {std::move(worker), ready.slot})) persist(std::move(*set));
  }

  // Snapshots may be taken more often than one is written.
  [[nodiscard]] bool due(iteration_id iteration) const {
    const auto every = context->values.checkpoint.every_iterations;
    return (every > 0 && iteration.value() % every == 0) || iteration == awaited ||
           iteration.value() == context->host->program().total_iterations;
  }

  void persist(snapshot_set set) {
    if (!posted.insert({set.branch, set.iteration}).second) return;
    if (posted.size() > 64) posted.erase(posted.begin());
    post_persist(*context, std::move(set));
  }

  // Snapshots whose message was lost with the actor before this one.
  void find_unwritten() {
    for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
      const auto worker = context->host->worker(rank_id{rank});
      if (!worker) continue;
      const auto arena_bytes = context->host->program().layout.arena_bytes;
      for (const auto& [slot, header] : storage::list_ready(worker->snapshots, arena_bytes)) {
        if (header.iteration.value() <= context->board->last_checkpoint_iteration()) continue;
        snapshot(worker->rank, worker->incarnation,
                 {header.generation, header.branch, header.iteration, slot, header.part,
                  header.parts, false});
      }
    }
  }

  void await(iteration_id iteration) {
    const bool waiting_already = awaited.has_value();
    awaited = iteration;
    post_look_for(*context, iteration);
    if (!waiting_already) self->delayed_send(self, look_again, tick{});
  }

  void look() {
    if (!awaited) return;
    find_unwritten();
    self->delayed_send(self, look_again, tick{});
  }

  void settled(const checkpoint_settled& outcome) {
    if (!outcome.committed) posted.erase({outcome.branch, outcome.iteration});
    if (awaited != outcome.iteration) return;
    awaited.reset();
    context->post<run_supervisor_actor>(outcome);
  }
};

checkpoint_actor::behavior_type checkpoint_behavior(
    checkpoint_actor::stateful_pointer<checkpoint_state> self, const run_context* context) {
  install_default_handlers(self, "checkpoint");
  self->state.self = self;
  self->state.context = context;
  self->state.find_unwritten();
  return {
      [self](worker_message& said) {
        if (const auto* ready = std::get_if<protocol::snapshot_ready>(&said.message)) {
          self->state.snapshot(said.rank, said.incarnation, *ready);
        }
      },
      [self](const await_checkpoint& what) { self->state.await(what.iteration); },
      [self](const checkpoint_settled& outcome) { self->state.settled(outcome); },
      [self](tick) { self->state.look(); },
  };
}

}  // namespace

checkpoint_actor spawn_checkpoint(caf::actor_system& system, const run_context& context) {
  return system.spawn(checkpoint_behavior, &context);
}

}  // namespace ftrt::actors
