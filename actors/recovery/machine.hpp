#pragma once

#include <actors/recovery/events.hpp>
#include <chrono>
#include <cstdint>
#include <ftrt/scenario.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The recovery machine: every decision about membership, generations and the source of state, as a
// pure function. No CAF, no clock, no descriptor, no randomness. The actor that owns a run
// translates messages into inputs and actions into messages, and decides nothing itself.
//
//   recovery::state s;
//   auto t = recovery::step(std::move(s), policy, recovery::begin{}, now);
//   for (const auto& a : t.actions) carry_out(a);
//   s = std::move(t.next);
namespace ftrt::recovery {

// The limits that a scenario sets; see [supervision] in docs/scenario.md.
struct policy {
  std::uint32_t world_size = 0;
  std::uint64_t total_iterations = 0;  // 0: not known, so claims beyond it cannot be refused
  std::uint64_t max_restarts = 1000;   // more within `window` end the run
  std::chrono::nanoseconds window{};   // 0: the whole run
  std::uint64_t max_failures_without_progress = 5;  // more in a row without a new commit end it
  std::chrono::nanoseconds backoff_initial{};       // delay of the second failure in a row, doubled
  std::chrono::nanoseconds backoff_max{};           // ... up to this
  std::uint64_t backoff_seed = 1;  // jitter is a function of it and of the count of restarts
  // So many deaths in a row of one rank, of one cause, in one iteration are the batch's fault; 0:
  // that is not looked for.
  std::uint32_t poison_limit = 0;
  bool skip_poisoned = false;  // leave such a batch out; else the run ends
  // A worker that cannot even be started is tried again for as long as it takes, within no budget.
  bool wait_for_replacement = false;
  bool replace_stragglers = false;  // else they are only told of
  std::chrono::nanoseconds start_timeout{};
  std::chrono::nanoseconds park_timeout{};
  std::chrono::nanoseconds join_timeout{};
  std::chrono::nanoseconds stop_timeout{};
  std::uint64_t digest_every =
      0;  // what ranks are told; 0: they compare their states at joins only
  non_finite_policy on_non_finite = non_finite_policy::skip;
  std::uint64_t max_non_finite_rollbacks = 3;  // more in a row without a new commit end the run
  // How long the catalog may take to answer before it is asked again (three times in all).
  std::chrono::nanoseconds checkpoint_timeout = std::chrono::seconds(60);
  // How long a rank whose program failed waits for its peers to report the same.
  std::chrono::nanoseconds verdict_timeout = std::chrono::seconds(2);
};

// Where the run as a whole stands.
enum class phase : std::uint8_t {
  idle,         // nothing was begun
  taking_over,  // asked workers that may be alive who they are
  gathering,    // revoked; waits until every rank is at rest: parked, or new and ready
  choosing,     // all at rest, none has state: asked for a snapshot or a checkpoint
  joining,      // generation `generation` is being set up
  training,     // generation `generation` lives
  finishing,    // all ranks finished; the final checkpoint is being made durable
  ended,
};

// Where one rank's newest worker stands.
enum class standing : std::uint8_t {
  absent,    // dead or never started; only before the run, and in finishing
  starting,  // ordered, has not said hello
  queried,   // take-over: asked who it is
  answered,  // take-over: has said who it is
  ready,     // new, has no state, waits for a join
  revoking,  // was told to leave its generation
  parked,    // has left it
  joining,
  joined,
  training,
  finished,
  doomed,  // killed, but its death is not known yet
};

struct deadline {
  std::uint64_t token = 0;  // 0: none
  time_point at{};
  friend bool operator==(const deadline&, const deadline&) = default;
};

// protocol::finished, comparable (NaN equals NaN).
struct finish_report {
  protocol::finished said;
  friend bool operator==(const finish_report& a, const finish_report& b);
};

// What is known about one rank. `committed`, `prepared`, `decided` are as of its last report.
struct member {
  incarnation_id incarnation;
  standing stands = standing::absent;
  deadline wait;  // for the next word from it; set wherever `stands` waits for that rank alone

  iteration_id committed;
  iteration_id prepared;
  bool decided = false;
  bool has_state = false;
  protocol::worker_phase said_phase = protocol::worker_phase::starting;  // take-over
  generation_id said_generation;                                         // take-over

  protocol::state_role role = protocol::state_role::initial;  // in the newest join
  std::string source;                                         // "survivor:0", "snapshot:400"
  std::string digest;                                         // joined
  std::uint64_t state_ns = 0;  // what copying or loading that state took it
  std::optional<finish_report> finish;
  std::optional<std::string> program_error;
  bool gave_up = false;     // has left an iteration whose numbers are not finite
  bool stays_slow = false;  // a straggler that the budget has no replacement for: that was told

  std::string kill_cause;           // why it is doomed
  std::uint32_t kills = 0;          // how often it was killed without dying
  std::uint64_t attempts = 0;       // replacements since the last new commit
  incarnation_id replaced;          // the last one that was counted there
  std::uint64_t false_starts = 0;   // workers in a row that could not be started, or not in time
  std::uint64_t join_failures = 0;  // of its own making, since the last new commit

  friend bool operator==(const member&, const member&) = default;
};

// Where a search over the ranks stopped, for the next one to begin there. No part of what a state
// means: any two are equal.
struct search_hint {
  std::uint32_t at = 0;
  friend bool operator==(const search_hint&, const search_hint&) { return true; }
};

// All that the machine knows. Plain data: copy it, compare it, print it, keep it for a postmortem.
struct state {
  phase at = phase::idle;
  generation_id generation;  // the newest assigned; alive in joining, training, finishing
  branch_id branch{1};
  generation_id branch_since;  // which opened `branch`
  bool resumed = false;        // history on record may reach past the first checkpoint
  iteration_id from;           // where `generation` begins
  iteration_id highest;        // newest commit known in this branch
  iteration_id frontier;       // newest commit ever known; only beyond it is there progress
  iteration_id agreed;         // newest at which all ranks are known to have held one state
  iteration_id abandoned;      // commits given up by rollbacks since the newest commit
  std::vector<member> ranks;

  // Of those who died since training last began:
  iteration_id dead_committed;             // the newest that one of them had committed
  std::vector<iteration_id> dead_decided;  // iterations whose decision one of them had seen
  bool distrust = false;                   // what the ranks hold does not count
  bool distrust_memory = false;            // nor do the snapshots in their memory
  std::optional<iteration_id> not_beyond;  // nor does anything past it, wherever it lies
  std::optional<rung> loaded;              // by `generation`
  rank_id giver;                           // the survivor that others receive from
  std::vector<rung> quarantined;           // failed to load since training last began
  std::uint32_t asks = 0;                  // how often the same was asked

  // When the newest generation was made, for the account of what a recovery took.
  time_point parked_at{};   // the last survivor was out
  time_point rested_at{};   // all ranks were at rest
  time_point trained_at{};  // all had joined

  std::vector<loss> unrecovered;
  std::uint64_t barren = 0;          // generations that failed in a row without a new commit
  std::uint64_t not_finite = 0;      // rollbacks for that reason without a new commit
  std::uint64_t restarts_total = 0;  // replacements, ever
  std::vector<time_point> restarts;  // those within the window
  std::string last_cause;
  std::string last_stderr;

  std::vector<suspect> suspects;       // one a rank at most; none that was committed since
  std::vector<iteration_id> left_out;  // windows that all ranks leave out, ascending

  bool stop_wanted = false;
  std::uint32_t final_retries = 0;
  time_point final_failed_at{};  // the first time
  std::string final_failure;     // the newest one
  bool final_pause = false;      // finishing: what `group_wait` waits for is the next attempt

  std::uint64_t last_token = 0;
  deadline group_wait;    // joining, choosing, finishing
  deadline verdict_wait;  // a program failed: do its peers report the same?
  deadline stop_wait;

  std::uint64_t fenced = 0;  // messages of older generations and incarnations, refused

  // With ten thousand ranks a look at all of them after each word of one would be a look at a
  // hundred million: the rank that was waited for is looked at first, the rest only when it came.
  search_hint last_looked_at;
  search_hint last_checked;

  friend bool operator==(const state&, const state&) = default;
};

struct transition {
  state next;
  std::vector<action> actions;  // to be carried out in this order
  std::string reason;           // one line for people; never empty
};

// The next state and what to do, for any input in any state; never fails, never blocks. `now` must
// not run backwards between steps. Breaks of the machine's own invariants stop the process.
[[nodiscard]] transition step(state s, const policy& limits, const input& in, time_point now);

// What a supervisor that takes over is to go on counting from.
[[nodiscard]] failure_counts counts_of(const state& s);

[[nodiscard]] std::string_view to_string(phase p);
[[nodiscard]] std::string_view to_string(standing s);
[[nodiscard]] std::string_view name_of(const input& in);
[[nodiscard]] std::string_view name_of(const action& a);
// One line for logs, tests and postmortems.
[[nodiscard]] std::string describe(const state& s);
[[nodiscard]] std::string describe(const input& in);
[[nodiscard]] std::string describe(const action& a);

// The function with its state, for an owner that keeps exactly one run.
class machine {
 public:
  explicit machine(policy limits) : limits_(limits) {}

  // Moves on and returns what to do; `reason()` says why.
  [[nodiscard]] std::vector<action> step(const input& in, time_point now) {
    transition t = recovery::step(std::move(state_), limits_, in, now);
    state_ = std::move(t.next);
    reason_ = std::move(t.reason);
    return std::move(t.actions);
  }
  [[nodiscard]] const state& current() const { return state_; }
  [[nodiscard]] const policy& limits() const { return limits_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  policy limits_;
  state state_;
  std::string reason_;
};

}  // namespace ftrt::recovery
