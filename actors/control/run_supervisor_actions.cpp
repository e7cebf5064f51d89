// What the recovery machine asks for, carried out.

#include <actors/control/poison.hpp>
#include <actors/control/run_supervisor_state.hpp>
#include <actors/control/source_search.hpp>
#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>

#include <algorithm>

namespace ftrt::actors {
namespace {

// The rows of a generation, and of the branch that it may open. Which of them are written it
// remembers, for another try.
history_rows::row rows_of(const recovery::record_generation& what) {
  return [what, now_ms = host::unix_now_ms(),
          branch_is_open = !what.rollback_to](storage::catalog& catalog) mutable -> result<void> {
    if (!branch_is_open) {
      const auto branch = catalog.begin_branch(*what.rollback_to, what.generation, now_ms);
      if (!branch) return tl::unexpected(branch.error());
      branch_is_open = true;
      if (*branch != what.branch) {
        host::log().warn("catalog: the new branch is {}, expected {}", branch->value(),
                         what.branch.value());
      }
    }
    return catalog.begin_generation(what.generation, what.branch, what.from, what.reason, now_ms);
  };
}

// Nothing can be saved on a branch that is nowhere on record, and what was given up would still
// count as history. At the start nothing has been made yet, so that the run ends and loses nothing;
// later its state is in memory alone, and to go on is the best that can be done for it.
void tell_of_missing_branch(const run_context& context, const recovery::record_generation& what,
                            const error& why, bool starting) {
  const auto text = "the catalog cannot record that history goes on from iteration " +
                    std::to_string(what.rollback_to->value()) + " as branch " +
                    std::to_string(what.branch.value()) + ": " + why.describe();
  if (!starting) {
    return context.record(event::kind::warning, "catalog",
                          text + "; no checkpoint can be saved before it can");
  }
  const recovery::end_run how{recovery::run_outcome::failed,
                              text + "; put that right and resume the run: nothing is lost",
                              {}};
  context.post<host_supervisor_actor>(run_ended{how});
}

}  // namespace

void run_supervisor_state::tell(rank_id rank, const protocol::message& message) const {
  if (const auto trainer = context->actors.trainer(rank)) self->send(trainer, tell_worker{message});
}

void run_supervisor_state::tell_all(const protocol::message& message) const {
  for (std::uint32_t rank = 0; rank < context->values.cluster.ranks; ++rank) {
    tell(rank_id{rank}, message);
  }
}

void run_supervisor_state::act(const recovery::spawn_worker& what) {
  if (what.delay.count() > 0) {
    self->delayed_send(self, what.delay, backoff_over{what});
  } else {
    spawn(what);
  }
}

void run_supervisor_state::spawn(const recovery::spawn_worker& what) {
  if (cancelled.erase({what.rank, what.incarnation}) > 0) return;
  context->host->spawn_worker(what.rank, what.incarnation);
}

void run_supervisor_state::act(const recovery::kill_worker& what) {
  // Its cause is known to the machine already.
  if (context->host->kill_worker(what.rank, what.incarnation, {})) return;
  // It still waits for its backoff: there is no process, and there will be none.
  cancelled.insert({what.rank, what.incarnation});
  self->send(self, worker_exited{what.rank, what.incarnation});
}

void run_supervisor_state::act(const recovery::revoke_generation& what) {
  for (const auto rank : what.ranks) tell(rank, protocol::revoke{what.generation});
}

void run_supervisor_state::act(const recovery::find_source& what) {
  post_find_source(*context, what);
}

void run_supervisor_state::act(const recovery::join_generation& what) {
  // A rank that cannot be told is dead or dying: its loss is on its way and begins the next
  // generation.
  if (auto sent = context->host->send_joins(what.by_rank); !sent) {
    host::log().debug("join of generation {}: {}", what.generation.value(),
                      sent.error().describe());
  }
}

void run_supervisor_state::act(const recovery::start_training& what) {
  const auto& now = machine->current();
  context->board->set_agreed(now.from);  // the digests of the join say so
  auto& shelf = context->host->shelf();
  if (now.loaded && now.loaded->from == recovery::rung::kind::snapshot) {
    shelf.loaded(now.loaded->iteration);
  } else {
    shelf.forget_offers();
  }
  tell_all(protocol::train{what.generation});
  context->board->set_ranks_alive(context->host->alive());
  context->forensics->write();  // the recovery waits for nothing any more
}

void run_supervisor_state::act(const recovery::ask_to_stop&) {
  tell_all(protocol::request_stop{});
}

void run_supervisor_state::act(const recovery::query_workers&) {
  tell_all(protocol::query{});
}

void run_supervisor_state::close_ledger(iteration_id last) {
  if (!open_ledger || last <= open_ledger->from) return;
  context->storage->post(
      [entry = *open_ledger, last, context = context](storage::catalog& catalog) {
        host::warn_of_failure(
            "catalog", context->history->write(catalog, [entry, last](storage::catalog& to) {
              return to.add_ledger(entry.branch, entry.generation, entry.from.next(), last);
            }));
      });
  open_ledger.reset();
}

void run_supervisor_state::act(const recovery::record_generation& what) {
  const bool starting = !open_ledger;
  close_ledger(what.reached);
  open_ledger = what;
  if (!redone.empty() && !what.rollback_to) context->board->count_redone();
  redone.clear();
  reported = what.from;
  auto membership = context->board->current();
  membership.generation = what.generation;
  membership.branch = what.branch;
  membership.from = what.from;
  if (what.rollback_to) membership.branch_since = what.generation;
  context->board->set_membership(membership);
  context->host->shelf().begin_generation(what.generation);
  if (what.rollback_to) {
    context->board->roll_back_to(*what.rollback_to, what.generation, what.reached);
    context->host->shelf().roll_back_to(*what.rollback_to);
  }
  context->storage->post([what, starting, context = context](storage::catalog& catalog) {
    if (what.rollback_to && context->series) {
      context->series->roll_back(what.generation, what.rollback_to->next());
    }
    const auto written = context->history->write(catalog, rows_of(what));
    if (!written && what.rollback_to) {
      return tell_of_missing_branch(*context, what, written.error(), starting);
    }
    host::warn_of_failure("catalog", written);
  });
}

void run_supervisor_state::act(const recovery::record_recovery& what) {
  recovery_record record;
  record.generation = what.generation.value();
  record.rank = what.rank.value();
  record.actor = "trainer:" + std::to_string(what.rank.value());
  record.cause = what.cause;
  record.source = what.source;
  record.detected_ms = what.detected_ms;
  record.resumed_ms = what.resumed_ms;
  record.lost_iterations = what.lost_iterations;
  record.times = what.times;
  const auto worker = context->host->worker(what.rank);
  record.replacement = worker && worker->spare ? "spare" : "fork";
  context->board->add(std::move(record));
}

void run_supervisor_state::act(const recovery::report_poison& what) {
  if (what.skipped) context->board->add_left_out(what.iteration);
  post_poison_bundle(*context, what);
}

void run_supervisor_state::act(const recovery::set_deadline& what) {
  const auto left = std::max(what.at - host::monotonic_now(), recovery::time_point{0});
  self->delayed_send(self, left, deadline_alarm{what.token});
}

void run_supervisor_state::act(const recovery::await_final_checkpoint& what) {
  awaited_checkpoint = what.iteration;
  context->post<checkpoint_actor>(await_checkpoint{what.iteration});
}

void run_supervisor_state::settled(const checkpoint_settled& said) {
  if (awaited_checkpoint != said.iteration) return;
  awaited_checkpoint.reset();
  feed(recovery::final_checkpoint_settled{said.iteration, said.committed, said.text});
}

void run_supervisor_state::act(const recovery::announce& what) {
  const auto subject =
      what.rank ? "trainer:" + std::to_string(what.rank->value()) : std::string{"run"};
  context->record(what.kind, subject, what.text, what.rank, what.iteration);
}

void run_supervisor_state::act(const recovery::end_run& what) {
  close_ledger(what.last ? what.last->iteration : machine->current().highest);
  if (what.last) context->board->set_finished(*what.last);
  context->forensics->write();
  outcome = what;
  context->post<host_supervisor_actor>(run_ended{what});
}

}  // namespace ftrt::actors
