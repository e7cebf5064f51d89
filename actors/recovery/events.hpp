#pragma once

#include <chrono>
#include <cstdint>
#include <ftrt/event.hpp>
#include <ftrt/summary.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <variant>
#include <vector>

// What the recovery machine hears and what it asks for. Plain data: no CAF, no clock, no
// descriptor.
namespace ftrt::recovery {

// Monotonic time; the machine is told it, it never asks.
using time_point = std::chrono::nanoseconds;

// ---- events: what happened ---------------------------------------------------------------------

// A window of data that a rank died in, again and again.
struct suspect {
  rank_id rank;
  iteration_id iteration;
  std::string cause;
  std::uint32_t times = 0;
  incarnation_id last;  // that died in it
  friend bool operator==(const suspect&, const suspect&) = default;
};

// A worker that died and whose rank has not yet been seen to commit again.
struct loss {
  rank_id rank;
  generation_id generation;  // the newest one when it died
  std::string cause;
  time_point fault_at{};
  time_point detected_at{};
  std::string source = {};  // of its successor's state, once that has joined
  friend bool operator==(const loss&, const loss&) = default;
};

// What went wrong so far, as limits and the account of recoveries count it: it outlives the
// supervisor that counted, so that the next one goes on counting there.
struct failure_counts {
  std::vector<suspect> suspects;
  std::uint64_t barren = 0;      // generations that failed in a row without a new commit
  std::uint64_t not_finite = 0;  // rollbacks for that reason without a new commit
  std::uint64_t restarts_total = 0;
  std::vector<time_point> restarts;  // those within the window
  struct of_rank {
    std::uint64_t attempts = 0;  // replacements since the last new commit
    incarnation_id replaced;     // the last one that was counted
    friend bool operator==(const of_rank&, const of_rank&) = default;
  };
  std::vector<of_rank> ranks;
  std::vector<loss> unrecovered;
  iteration_id abandoned;  // commits given up by rollbacks since the newest commit
  friend bool operator==(const failure_counts&, const failure_counts&) = default;
};

// The run begins, or is resumed: no worker exists yet. `begin{}` is a fresh run. What is on record
// in the catalog for a resumed one:
struct begin {
  generation_id last_generation;             // 0: a fresh run
  branch_id branch;                          // the newest one
  iteration_id last_committed;               // the newest one in the ledger of that branch
  std::vector<incarnation_id> incarnations;  // of each rank, newest; empty: all 0
  std::vector<iteration_id> left_out = {};   // windows that were left out, ascending
};
// A new run_supervisor takes over workers that may be alive; hellos (or losses) of all follow.
struct take_over {
  generation_id last_generation;  // the largest on record in the catalog or the host table
  branch_id branch;
  std::vector<incarnation_id> incarnations;  // of each rank, newest; 0: never started
  iteration_id last_committed;               // the newest commit on record of that branch
  generation_id branch_since;  // the generation that opened `branch`: older state is void
  iteration_id agreed{};       // the newest at which all ranks are known to have held one state
  // The old supervisor was about to take all back: nothing past this iteration is to be believed.
  std::optional<iteration_id> not_beyond{};
  std::vector<iteration_id> left_out = {};  // windows that are left out, ascending
  failure_counts counts = {};               // of the supervisor before this one
};
// A worker answers for the first time, or again after query.
struct worker_said_hello {
  protocol::hello hello;
};
struct worker_start_failed {
  rank_id rank;
  incarnation_id incarnation;
  std::string text;
};
// CAF said DOWN for the trainer, and its worker is known dead.
struct worker_lost {
  rank_id rank;
  incarnation_id incarnation;
  std::string cause;              // "killed by signal 9 (SIGKILL)"
  std::string stderr_tail;        // the last lines that it wrote
  iteration_id committed;         // read from its progress page
  bool applying = false;          // it died between two iterations
  time_point fault_at{};          // when the fault happened, as well as is known
  bool in_window = false;         // it died in the forward or backward of iteration `committed` + 1
  bool injected = false;          // a fault that ftrt caused on purpose
  std::uint64_t micro_batch = 0;  // in_window: the one it was at
};
struct worker_parked {
  rank_id rank;
  incarnation_id incarnation;
  protocol::parked parked;
};
struct worker_joined {
  rank_id rank;
  incarnation_id incarnation;
  protocol::joined joined;
};
struct worker_join_failed {
  rank_id rank;
  incarnation_id incarnation;
  protocol::join_failed failed;
};
struct worker_finished {
  rank_id rank;
  incarnation_id incarnation;
  protocol::finished finished;
};
struct worker_program_failed {
  rank_id rank;
  incarnation_id incarnation;
  protocol::program_failed failed;
};
// A peer reported ranks lost (the loss itself comes as worker_lost once control has confirmed it).
struct peers_reported_lost {
  generation_id generation;
  std::vector<rank_id> lost;
};
// The group's committed iteration moved.
struct progressed {
  generation_id generation;
  iteration_id committed;
  std::optional<time_point> first_at = {};  // when the generation's first commit was, if known
};
// What can be loaded where no survivor has state: a rung of the ladder of state.
struct rung {
  enum class kind : std::uint8_t {
    snapshot,    // control holds it, whole and verified, in memory that newcomers copy from
    checkpoint,  // on disk, verified
  };
  kind from = kind::checkpoint;
  iteration_id iteration;
  std::string directory;  // checkpoint: absolute

  friend bool operator==(const rung&, const rung&) = default;
};
// Answer to find_source, with its generation. Empty: nothing is left that verifies.
struct source_found {
  generation_id generation;
  std::optional<rung> newest;
};
// The checkpoint that the end of the run waits for is durable and in the catalog, or never will be.
struct final_checkpoint_settled {
  iteration_id iteration;
  bool committed = false;
  std::string text;
};
// The digests of all ranks are equal at this iteration.
struct states_agreed {
  generation_id generation;
  iteration_id iteration;
};
// They are not. `odd`: those that differ from the majority; empty: there is none.
struct state_diverged {
  generation_id generation;
  iteration_id iteration;
  std::vector<rank_id> odd;
};
// The decision word said that a loss or a gradient is not finite; all ranks say so.
struct worker_not_finite {
  rank_id rank;
  incarnation_id incarnation;
  protocol::not_finite found;
};
// A rank computes much slower than the others, by the watch over their compute times. May be said
// again and again while it lasts.
struct straggler_found {
  generation_id generation;
  rank_id rank;
  incarnation_id incarnation;
  std::string figure;          // "computes for 212.0 ms an iteration, ..."
  bool all_iterate = false;    // no rank starts, evaluates, or saves just now
  bool has_successor = false;  // a process can take its place at once
};
struct stop_requested {
  std::string reason;
};
// A deadline that the machine set with set_deadline.
struct deadline_passed {
  std::uint64_t token = 0;
};

using input = std::variant<begin, take_over, worker_said_hello, worker_start_failed, worker_lost,
                           worker_parked, worker_joined, worker_join_failed, worker_finished,
                           worker_program_failed, peers_reported_lost, progressed, source_found,
                           final_checkpoint_settled, stop_requested, deadline_passed, states_agreed,
                           state_diverged, worker_not_finite, straggler_found>;

// ---- actions: what to do about it --------------------------------------------------------------

// Start incarnation `incarnation` of `rank` after `delay` (backoff). worker_said_hello,
// worker_start_failed or worker_lost follows.
struct spawn_worker {
  rank_id rank;
  incarnation_id incarnation;
  std::chrono::nanoseconds delay{0};
};
// SIGKILL; worker_lost follows. Also for a worker that was ordered but has not been forked: then it
// is not forked, and worker_lost follows all the same. May be asked again for the same worker.
struct kill_worker {
  rank_id rank;
  incarnation_id incarnation;
  std::string cause;
};
// To the trainers of these ranks; each answers with worker_parked (or is lost).
struct revoke_generation {
  generation_id generation;
  std::vector<rank_id> ranks;
};
// Look for the newest state of the lineage that verifies: complete snapshots in shared memory, then
// checkpoints (of one iteration, the snapshot: it is faster); source_found follows. `quarantined`:
// these failed to load, so they are set aside first. `memory`: false where the workers' memory is
// not to be believed. `not_beyond`: whatever is of a later iteration is set aside too, since the
// ranks are not known to have agreed any more.
struct find_source {
  generation_id generation;  // the newest when it was asked: the answer holds until the next
  std::vector<rung> quarantined;
  bool memory = true;
  std::optional<iteration_id> not_beyond;
};
// To every trainer its own message.
struct join_generation {
  generation_id generation;
  std::vector<protocol::join> by_rank;
};
// May be repeated for a generation that trains (a new trainer may have missed it): idempotent.
struct start_training {
  generation_id generation;
};
// To all workers. May be repeated: idempotent.
struct ask_to_stop {};
// Ask all workers who they are (take_over).
struct query_workers {};
// A new generation, for the catalog. `rollback_to`: history past it is void, a new branch begins.
struct record_generation {
  generation_id generation;
  branch_id branch;
  iteration_id from;
  std::string reason;
  std::optional<iteration_id> rollback_to;
  iteration_id reached;  // the newest commit before it; beyond `from` only at a rollback
};
// A recovery is complete: the first commit after it was seen. `detected_ms` and `resumed_ms` count
// from `fault_at`.
struct record_recovery {
  generation_id generation;
  rank_id rank;
  std::string cause;
  std::string source;  // "survivor:0", "snapshot:400", "checkpoint:400", "initial"
  double detected_ms = 0;
  double resumed_ms = 0;
  std::uint64_t lost_iterations = 0;
  recovery_times times;  // what resumed_ms went into
};
// A window of data is to blame for a rank's deaths: keep what it takes to reproduce it. `skipped`:
// all ranks leave it out from now on, which must be remembered for whoever resumes the run.
struct report_poison {
  rank_id rank;
  iteration_id iteration;
  std::uint32_t times = 0;
  std::string cause;
  std::string stderr_tail;
  std::uint64_t micro_batch = 0;
  bool skipped = false;
};
struct set_deadline {
  std::uint64_t token = 0;
  time_point at{};
};
// All ranks finished with this digest; answer with final_checkpoint_settled once its checkpoint is
// durable (or has failed for good).
struct await_final_checkpoint {
  iteration_id iteration;
};
struct announce {
  event::kind kind = event::kind::warning;
  generation_id generation;
  iteration_id iteration;
  std::optional<rank_id> rank;
  std::string text;
};
enum class run_outcome : std::uint8_t { completed, stopped, failed };
// The end; workers that still stand are let go or killed by whoever carries this out. `last`: what
// the workers said at their finish (not for failed). `stopped` with an `error`: the stop's deadline
// passed before a final checkpoint was committed, so the run's exit code is that of a failure.
struct end_run {
  run_outcome outcome = run_outcome::completed;
  std::string error;
  std::optional<protocol::finished> last;
};

using action =
    std::variant<spawn_worker, kill_worker, revoke_generation, find_source, join_generation,
                 start_training, ask_to_stop, query_workers, record_generation, record_recovery,
                 report_poison, set_deadline, await_final_checkpoint, announce, end_run>;

}  // namespace ftrt::recovery
