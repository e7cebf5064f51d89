#include <actors/control/chaos_orders.hpp>
#include <actors/control/handlers.hpp>
#include <actors/control/run_supervisor.hpp>
#include <actors/control/run_supervisor_state.hpp>
#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <caf/actor_system.hpp>
#include <storage/progress.hpp>

namespace ftrt::actors {
recovery::policy policy_of(const scenario& values, std::uint64_t total_iterations) {
  const auto& limits = values.supervision;
  recovery::policy policy;
  policy.world_size = values.cluster.ranks;
  policy.total_iterations = total_iterations;
  policy.max_restarts = limits.max_restarts;
  policy.window = limits.window;
  policy.max_failures_without_progress = limits.max_failures_without_progress;
  policy.backoff_initial = limits.backoff_initial;
  policy.backoff_max = limits.backoff_max;
  policy.backoff_seed = values.run.seed;
  policy.poison_limit = static_cast<std::uint32_t>(limits.poisoned_after);
  policy.skip_poisoned = limits.poisoned_batch == poison_policy::skip;
  policy.wait_for_replacement = limits.no_replacement == replacement_policy::wait;
  policy.replace_stragglers = limits.on_straggler == straggler_policy::replace;
  policy.start_timeout = limits.start_timeout;
  policy.park_timeout = limits.park_timeout;
  policy.join_timeout = limits.join_timeout;
  policy.stop_timeout = limits.stop_timeout;
  policy.on_non_finite = values.train.on_non_finite;
  policy.max_non_finite_rollbacks = values.train.max_non_finite_rollbacks;
  return policy;
}

namespace {

generation_standing standing_of(const recovery::state& now) {
  return {now.at, now.generation};
}

bool lives(recovery::phase at) {
  return at == recovery::phase::joining || at == recovery::phase::training ||
         at == recovery::phase::finishing || at == recovery::phase::taking_over;
}

}  // namespace

// ---- inputs -------------------------------------------------------------------------------------

void run_supervisor_state::feed(const recovery::input& input) {
  const auto before = standing_of(machine->current());
  const auto actions = machine->step(input, host::monotonic_now());
  host::log().debug("{} -> {}", recovery::describe(input), machine->reason());
  keep_last_words(before, actions);
  context->board->set_phase(recovery::to_string(machine->current().at));
  context->board->set_disputed(machine->current().not_beyond);
  context->counts->keep(recovery::counts_of(machine->current()));
  for (const auto& action : actions) {
    std::visit([this](const auto& what) { act(what); }, action);
  }
}

// What the ranks do when a generation ends is copied before any of them is told of it.
void run_supervisor_state::keep_last_words(const generation_standing& before,
                                           const std::vector<recovery::action>& next) {
  const auto& now = machine->current();
  for (const auto& action : next) {
    const auto* end = std::get_if<recovery::end_run>(&action);
    if (end != nullptr && end->outcome == recovery::run_outcome::failed) {
      context->forensics->keep(before.generation, end->error);
    }
  }
  const bool goes_on = lives(now.at) && now.generation == before.generation;
  if (lives(before.at) && !goes_on && now.at != recovery::phase::ended) {
    context->forensics->keep(before.generation, machine->reason());
  }
  for (const auto& loss : now.unrecovered) {
    context->forensics->add_loss(loss.generation, loss.rank, loss.cause);
  }
}

void run_supervisor_state::adopt(const trainer_ready& ready) {
  monitored[ready.trainer.address()] = {ready.rank, ready.incarnation};
  self->monitor(ready.trainer);
  // What was said to the trainer before this one may be lost with it.
  if (const auto& now = machine->current(); now.at == recovery::phase::taking_over) {
    self->send(ready.trainer, tell_worker{protocol::query{}});
  } else if (now.ranks[ready.rank.value()].stands == recovery::standing::revoking) {
    self->send(ready.trainer, tell_worker{protocol::revoke{now.generation}});
  } else if (now.at == recovery::phase::training) {
    self->send(ready.trainer, tell_worker{protocol::train{now.generation}});
    if (now.stop_wanted) self->send(ready.trainer, tell_worker{protocol::request_stop{}});
  }
}

void run_supervisor_state::down(const caf::down_msg& message) {
  const auto found = monitored.find(message.source);
  if (found == monitored.end()) return;
  const auto [rank, incarnation] = found->second;
  monitored.erase(found);
  // A trainer that was killed alone is replaced by host_supervisor; its worker lives.
  if (is_worker_lost(message.reason)) lost(rank, incarnation);
}

void run_supervisor_state::lost(rank_id rank, incarnation_id incarnation) {
  // What the dead one wrote of its state still tells whether it harmed the others.
  compare_digests();
  recovery::worker_lost loss;
  loss.rank = rank;
  loss.incarnation = incarnation;
  loss.cause = "its process is gone";
  loss.fault_at = host::monotonic_now();
  if (const auto worker = context->host->worker(rank, incarnation)) {
    // What lives is not lost, whoever said so: its successor would write into the same run.
    if (!worker->dead) return;
    settle_orders(*context);  // it may have been one that killed it
    const auto view = storage::progress_reader{worker->progress}.view();
    loss.cause = (worker->struck ? "chaos: " : "") + worker->exit_cause;
    loss.stderr_tail = worker->errors.text();
    loss.committed = view.committed;
    loss.applying = view.applying;
    loss.in_window = view.phase == storage::train_phase::compute ||
                     view.phase == storage::train_phase::all_reduce;
    loss.micro_batch = view.micro_batch;
    loss.injected = worker->injected;
    const std::int64_t caused_ns = worker->fault_ns;
    const auto fault_ns = caused_ns != 0 ? caused_ns : view.progress_ns;
    if (fault_ns > 0) {
      const std::chrono::nanoseconds stamp{fault_ns};
      // A worker's own is of a clock that does not jump.
      loss.fault_at = caused_ns != 0 ? stamp : host::as_seen_here(stamp);
    }
  }
  context->storage->post([rank, incarnation, cause = loss.cause](storage::catalog& catalog) {
    host::warn_of_failure("catalog",
                          catalog.end_incarnation(rank, incarnation, cause, host::unix_now_ms()));
  });
  context->board->set_ranks_alive(context->host->alive());
  feed(loss);
}

void run_supervisor_state::hear(const worker_message& said) {
  const auto rank = said.rank;
  const auto incarnation = said.incarnation;
  std::visit(
      [&](const auto& m) {
        using type = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<type, protocol::hello>) {
          // It speaks for itself alone.
          auto hello = m;
          hello.rank = rank;
          hello.incarnation = incarnation;
          feed(recovery::worker_said_hello{std::move(hello)});
        } else if constexpr (std::is_same_v<type, protocol::parked>) {
          if (m.prepared.value() == 0 && m.has_state) redone.insert(m.generation);
          feed(recovery::worker_parked{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::joined>) {
          feed(recovery::worker_joined{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::join_failed>) {
          feed(recovery::worker_join_failed{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::finished>) {
          compare_digests();  // of the whole state, where the report tells of the weights alone
          feed(recovery::worker_finished{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::program_failed>) {
          feed(recovery::worker_program_failed{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::not_finite>) {
          compare_digests();  // a state that went astray may be why
          feed(recovery::worker_not_finite{rank, incarnation, m});
        } else if constexpr (std::is_same_v<type, protocol::peer_lost>) {
          feed(recovery::peers_reported_lost{m.generation, m.lost});
        } else {
          context->record(event::kind::message_refused, "trainer:" + std::to_string(rank.value()),
                          "a worker may not send " + std::string{protocol::name_of(said.message)},
                          rank);
          context->host->kill_worker(rank, incarnation, "broke the protocol");
        }
      },
      said.message);
}

// What the supervisor before this one recorded of the generation is still to be closed.
void run_supervisor_state::continue_ledger() {
  const auto now = context->board->current();
  if (now.generation.value() == 0) return;
  recovery::record_generation open;
  open.generation = now.generation;
  open.branch = now.branch;
  open.from = now.from;
  open_ledger = open;
  reported = iteration_id{context->board->last_iteration()};
}

// ---- the actor ----------------------------------------------------------------------------------

namespace {

void begin(run_supervisor_state& state, const run_beginning& beginning) {
  const bool taking_over = std::holds_alternative<recovery::take_over>(beginning);
  if (taking_over) state.continue_ledger();
  std::visit([&](const auto& how) { state.feed(how); }, beginning);
  if (taking_over) {
    state.compare_digests();  // what the one before it may not have acted on
    for (std::uint32_t rank = 0; rank < state.context->values.cluster.ranks; ++rank) {
      const auto worker = state.context->host->worker(rank_id{rank});
      if (!worker) continue;
      const auto trainer = state.context->actors.trainer(worker->rank, worker->incarnation);
      if (worker->dead) {
        state.lost(worker->rank, worker->incarnation);
      } else if (trainer) {
        state.adopt({worker->rank, worker->incarnation, trainer});
      }
    }
  }
  state.look_at_progress();
}

run_supervisor_actor::behavior_type run_supervisor_behavior(
    run_supervisor_actor::stateful_pointer<run_supervisor_state> self, const run_context* context,
    const run_beginning& beginning) {
  install_default_handlers(self, "run_supervisor");
  auto& state = self->state;
  state.self = self;
  state.context = context;
  const auto& program = context->host->program();
  auto policy = policy_of(context->values, program.total_iterations);
  policy.digest_every = program.digest_every;
  host::log().debug("ranks digest their states every {} iterations", policy.digest_every);
  state.machine.emplace(policy);
  state.digests.emplace(*context);
  state.stragglers.emplace(*context);
  state.watch.emplace(watch_limits_of(context->values, program.layout.arena_bytes));
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.down(message); });
  begin(state, beginning);
  return {
      [self](const trainer_ready& ready) { self->state.adopt(ready); },
      [self](const worker_message& said) { self->state.hear(said); },
      [self](const worker_start_failed& f) {
        self->state.feed(recovery::worker_start_failed{f.rank, f.incarnation, f.text});
      },
      [self](const worker_exited& e) { self->state.lost(e.rank, e.incarnation); },
      [self](const recovery::source_found& found) { self->state.feed(found); },
      [self](const checkpoint_settled& s) { self->state.settled(s); },
      [self](const stop_run& stop) { self->state.feed(recovery::stop_requested{stop.reason}); },
      [self](tick) { self->state.look_at_progress(); },
      [self](const deadline_alarm& alarm) {
        self->state.feed(recovery::deadline_passed{alarm.token});
      },
      [self](const backoff_over& over) { self->state.spawn(over.what); },
  };
}

}  // namespace

run_supervisor_actor spawn_run_supervisor(caf::actor_system& system, const run_context& context,
                                          run_beginning beginning) {
  return system.spawn(run_supervisor_behavior, &context, std::move(beginning));
}

}  // namespace ftrt::actors
