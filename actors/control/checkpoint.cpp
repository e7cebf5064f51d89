#include <actors/control/checkpoint.hpp>
#include <actors/control/handlers.hpp>
#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <string>
#include <tuple>
#include <utility>

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
  auto whole = std::move(sets_.extract(id).mapped());
  note(whole);
  return whole;
}

void snapshot_collector::note(const snapshot_set& complete) {
  newest_ = std::max(newest_, age{complete.generation, complete.iteration});
}

std::optional<snapshot_set> snapshot_collector::unsaid(std::vector<snapshot_set> whole) {
  const auto age_of = [](const snapshot_set& set) { return age{set.generation, set.iteration}; };
  const bool behind = !whole.empty() && age_of(whole.back()) > newest_;
  const bool silent = std::exchange(behind_, behind) && newest_ == at_last_look_;
  const bool found = behind && silent;
  if (found) note(whole.back());
  at_last_look_ = newest_;
  return found ? std::optional{std::move(whole.back())} : std::nullopt;
}

namespace {

constexpr std::chrono::milliseconds look_interval{100};

// A clock that chaos lets jump would have this process stand still.
std::chrono::nanoseconds steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::string name_of(const snapshot_set& set) {
  return "checkpoint:" + std::to_string(set.iteration.value());
}

struct checkpoint_state {
  checkpoint_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  snapshot_collector collector;
  std::optional<checkpoint_line> line;
  std::optional<snapshot_set> last;  // of the run; not to be written before it is awaited
  std::set<std::pair<branch_id, iteration_id>> posted;  // jobs that were begun
  std::optional<iteration_id> awaited;
  generation_id awaited_of;  // the ranks of this generation agreed on it

  static constexpr const char* name = "checkpoint";

  void begin(checkpoint_actor::pointer me, const run_context* shared) {
    self = me;
    context = shared;
    context->drops->taken_up(steady_now());
    line.emplace([shared](snapshot_set set) {
      return shared->holder->hold(shared->host->program().layout, std::move(set));
    });
    for (auto& set : unwritten()) {
      collector.note(set);
      complete(std::move(set), false);
    }
    look();
  }

  void snapshot(rank_id rank, incarnation_id incarnation, const protocol::snapshot_ready& ready) {
    auto worker = context->host->worker(rank, incarnation);
    // A part is its rank's own, and as many as there are ranks.
    if (!worker || ready.part != rank.value() || ready.parts != context->values.cluster.ranks) {
      return;
    }
    if (!context->board->is_history(ready.branch, ready.iteration)) return;
    if (!ready.final && !is_wanted(ready.iteration)) return;  // it stays in memory only
    // Late words of what a look found, and what may have been dropped since.
    if (!ready.final && !is_last(ready.iteration) && !collector.is_news(ready)) return;
    if (auto set = collector.add(ready, {std::move(worker), ready.slot})) {
      complete(std::move(*set), ready.final);
    }
  }

  void complete(snapshot_set set, bool final) {
    if (!final && !is_last(set.iteration)) return persist(std::move(set));
    last = std::move(set);
    persist_last();
  }

  [[nodiscard]] bool is_last(iteration_id iteration) const {
    return iteration == awaited || iteration.value() == context->host->program().total_iterations;
  }

  [[nodiscard]] bool is_wanted(iteration_id iteration) const {
    return is_last(iteration) || due(iteration);
  }

  // Snapshots may be taken more often than one is written.
  [[nodiscard]] bool due(iteration_id iteration) const {
    const auto every = context->values.checkpoint.every_iterations;
    return every > 0 && iteration.value() % every == 0;
  }

  // The supervisor awaits it once all ranks have ended with the same state: until then it may be
  // one that nobody agrees on, and nobody goes on from where it could take the slots away.
  void persist_last() {
    if (!last || last->iteration != awaited) return;
    if (last->generation == awaited_of) persist(std::move(*last));
    last.reset();
  }

  void persist(snapshot_set set) {
    if (!posted.contains({set.branch, set.iteration})) carry_out(line->offer(std::move(set)));
  }

  void carry_out(checkpoint_line::decision made) {
    for (const auto& each : made.dropped) dropped(each);
    if (!made.held) return;
    posted.insert({made.held->set.branch, made.held->set.iteration});
    if (posted.size() > 64) posted.erase(posted.begin());
    post_persist(*context, std::make_shared<held_set>(std::move(*made.held)));
  }

  void dropped(const dropped_set& what) {
    const auto iteration = what.set.iteration;
    const auto text = what.why.describe();
    const bool overtaken = what.why.code == error_code::aborted;
    context->record(overtaken ? event::kind::checkpoint_dropped : event::kind::checkpoint_failed,
                    name_of(what.set), text, std::nullopt, iteration);
    if (awaited == iteration) settled({what.set.branch, iteration, false, text});
    if (!overtaken) return;
    if (auto told = context->drops->drop(iteration, what.waited, steady_now())) {
      context->record(event::kind::warning, "checkpoint", std::move(*told), std::nullopt,
                      iteration);
    }
  }

  // What is whole in memory, oldest first, and neither written nor about to be.
  [[nodiscard]] std::vector<snapshot_set> unwritten() const {
    const auto now = context->board->current();
    auto sets = complete_sets(context->host->workers(), context->host->program().layout,
                              context->values.cluster.ranks, now.branch, now.branch_since);
    std::erase_if(sets, [&](const snapshot_set& set) {
      return std::ranges::any_of(set.parts, &snapshot_part::held) || !is_wanted(set.iteration) ||
             set.iteration.value() <= context->board->last_checkpoint_iteration();
    });
    std::ranges::reverse(sets);
    return sets;
  }

  // Which snapshot of a run that stops is its last one, only the ranks' words say.
  void look_for_unsaid() {
    auto sets = unwritten();
    if (awaited && !sets.empty() && sets.back().iteration == awaited) {
      return complete(std::move(sets.back()), false);
    }
    if (context->board->stop_reason()) return;
    if (auto set = collector.unsaid(std::move(sets))) complete(std::move(*set), false);
  }

  void await(iteration_id iteration) {
    awaited = iteration;
    awaited_of = context->board->current().generation;
    persist_last();
    post_look_for(*context, iteration);
  }

  void look() {
    context->drops->looked(steady_now());
    carry_out(line->retry());
    look_for_unsaid();
    self->delayed_send(self, look_interval, tick{});
  }

  void settled(const checkpoint_settled& outcome) {
    if (!outcome.committed) posted.erase({outcome.branch, outcome.iteration});
    if (awaited == outcome.iteration &&
        context->board->is_history(outcome.branch, outcome.iteration)) {
      awaited.reset();
      context->post<run_supervisor_actor>(outcome);
    }
    carry_out(line->retry());
  }
};

checkpoint_actor::behavior_type checkpoint_behavior(
    checkpoint_actor::stateful_pointer<checkpoint_state> self, const run_context* context) {
  install_default_handlers(self, "checkpoint");
  self->state.begin(self, context);
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
