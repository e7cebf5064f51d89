#pragma once

#include <actors/recovery/machine.hpp>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Inside of the recovery machine; nobody outside this folder includes it.
namespace ftrt::recovery {

inline void append(std::string& out, std::string_view text) {
  out += text;
}
template <std::integral Number>
void append(std::string& out, Number n) {
  out += std::to_string(n);
}
template <class Tag, class Rep>
void append(std::string& out, strong_number<Tag, Rep> n) {
  out += std::to_string(n.value());
}

// A deadline's token: its number, and in the low bits 1 + the rank that it waits for, if it is one.
inline constexpr unsigned rank_bits = 17;
[[nodiscard]] constexpr std::uint64_t make_token(std::uint64_t number) {
  return number << rank_bits;
}
[[nodiscard]] constexpr std::uint64_t make_token(std::uint64_t number, rank_id rank) {
  return make_token(number) | (std::uint64_t{rank.value()} + 1);
}
// world_size or more: of no rank that is known.
[[nodiscard]] constexpr std::uint64_t rank_of_token(std::uint64_t token) {
  return (token & ((std::uint64_t{1} << rank_bits) - 1)) - 1;
}

// Text of several parts: strings, integers, ids. (Streams are ten times slower.)
template <class... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// One step: takes the state, handles one input, gives the transition. Lives for that one call.
// Each handler is in the file of the matter that it belongs to (start, loss, poison, gather,
// source, join, numbers, straggler, program, finish, deadlines).
class engine {
 public:
  engine(state s, const policy& limits, time_point now)
      : s_(std::move(s)), limits_(limits), now_(now) {}

  [[nodiscard]] transition run(const input& in) &&;

 private:
  // start.cpp
  void handle(const begin& e);
  void handle(const take_over& e);
  void go_on_counting(const failure_counts& before);
  void handle(const worker_said_hello& e);
  void handle(const worker_start_failed& e);
  void greet(rank_id rank, const protocol::hello& said);
  void greet_again(rank_id rank, const protocol::hello& said);
  void settle_take_over();
  [[nodiscard]] bool adoptable() const;
  void adopt();
  void leave_take_over();

  // loss.cpp
  void handle(const worker_lost& e);
  void handle(const peers_reported_lost& e);
  void lose(rank_id rank, const worker_lost& e);
  bool count_restart(member& m);  // once each loss
  void remember_loss(rank_id rank, const worker_lost& e);
  void order(rank_id rank, std::chrono::nanoseconds delay);
  void replace(rank_id rank);
  void forget_old_restarts();
  void doom(rank_id rank, std::string cause);
  void generation_failed(const std::string& cause);
  [[nodiscard]] bool within_budget(rank_id rank);
  void exhaust(const std::string& which);
  [[nodiscard]] std::chrono::nanoseconds backoff(rank_id rank) const;
  [[nodiscard]] std::chrono::nanoseconds pause_after(std::uint64_t false_starts) const;
  [[nodiscard]] std::chrono::nanoseconds jittered(std::chrono::nanoseconds initial,
                                                  std::uint64_t doublings) const;

  // poison.cpp
  [[nodiscard]] bool may_blame_window(const member& m, const worker_lost& e) const;
  void suspect_window(rank_id rank, const worker_lost& e, const std::string& cause);
  const suspect& count_death(rank_id rank, const worker_lost& e, const std::string& kind);
  void condemn_window(const suspect& culprit, const worker_lost& e, const std::string& cause);
  void leave_out(iteration_id iteration);
  [[nodiscard]] bool too_many_left_out(iteration_id iteration) const;

  // gather.cpp
  void handle(const worker_parked& e);
  void regroup();
  void revoke_members();
  void settle();

  // source.cpp
  void handle(const source_found& e);
  void choose();
  [[nodiscard]] bool is_survivor(const member& m) const;
  [[nodiscard]] bool decision_seen(iteration_id k);
  [[nodiscard]] bool look_for_evidence(iteration_id k) const;
  [[nodiscard]] iteration_id reach(const member& m);
  void weigh_the_dead(std::optional<iteration_id> target);
  [[nodiscard]] bool doom_those_behind(iteration_id target);
  void continue_from_survivors(iteration_id target);
  void ask_for_source();
  void look_for_source();
  void open_branch_at(iteration_id target);

  // join.cpp
  void handle(const worker_joined& e);
  void handle(const worker_join_failed& e);
  void handle(const progressed& e);
  void begin_join();
  [[nodiscard]] protocol::join join_of(rank_id rank) const;
  void compare_joined();
  void train();
  // `first_at`: when the generation's first commit was; where only a report tells of it, the time
  // at which that was heard.
  void note_progress(iteration_id committed, time_point first_at);
  void record_recoveries(time_point resumed_at);
  [[nodiscard]] recovery_times times_of(const loss& lost, time_point resumed_at) const;
  // Ranks that disagree with the majority of `votes`; nothing where there is no majority. An empty
  // vote is none.
  [[nodiscard]] static std::optional<std::vector<rank_id>> minority(
      const std::vector<std::string>& votes);
  void settle_disagreement(const std::optional<std::vector<rank_id>>& odd, const std::string& what);

  // numbers.cpp
  [[nodiscard]] bool compares_states() const;
  void handle(const states_agreed& e);
  void handle(const state_diverged& e);
  void handle(const worker_not_finite& e);
  void disbelieve(const std::vector<rank_id>& odd, const std::string& what);
  void go_back_to_agreement();
  void answer_not_finite();

  // straggler.cpp
  void handle(const straggler_found& e);
  [[nodiscard]] std::optional<std::string_view> why_it_stays(const straggler_found& e);
  [[nodiscard]] bool budget_for_stragglers();
  [[nodiscard]] static bool is_straggler_doomed(const member& m);
  void keep_straggler(const straggler_found& e);

  // program.cpp
  void handle(const worker_program_failed& e);
  void judge_program();
  void convict();

  // finish.cpp
  void handle(const worker_finished& e);
  void handle(const final_checkpoint_settled& e);
  void handle(const stop_requested& e);
  void compare_finished();
  void retry_or_fail_final(const std::string& text);
  void end(run_outcome outcome, std::string error);

  // deadlines.cpp
  void handle(const deadline_passed& e);
  void rank_is_late(rank_id rank);
  void group_is_late();
  void stop_is_late();

  // machine.cpp
  // The rank's member if that incarnation is its newest and stands, else nothing (and fenced).
  [[nodiscard]] member* find(rank_id rank, incarnation_id incarnation);
  [[nodiscard]] member& at(rank_id rank) { return s_.ranks[rank.value()]; }
  // Amortized over the words of all ranks it costs as good as nothing: see state::last_looked_at.
  [[nodiscard]] bool all(bool (*is)(const member&));
  [[nodiscard]] bool of_this_generation(generation_id g);
  void fence(std::string_view what);
  void because(std::string text);
  void act(action a) { actions_.push_back(std::move(a)); }
  void tell(event::kind kind, std::optional<rank_id> rank, std::string text);
  void arm(deadline& d, std::chrono::nanoseconds after);
  // A deadline for the next word from this rank.
  void arm_rank(rank_id rank, std::chrono::nanoseconds after);
  void check_invariants();
  void check_member(const member& m) const;

  template <class Function>
  void for_each_rank(Function&& f) {
    for (std::uint32_t r = 0; r < s_.ranks.size(); ++r) f(rank_id{r}, s_.ranks[r]);
  }

  state s_;
  const policy& limits_;
  time_point now_;
  std::vector<action> actions_;
  std::string reason_;
  // The last answer of decision_seen(): thousands of survivors ask for the same iteration.
  std::optional<std::pair<iteration_id, bool>> evidence_;
};

// In a generation: it would be left behind if the generation were not revoked.
[[nodiscard]] inline bool is_member(const member& m) {
  return m.stands == standing::joining || m.stands == standing::joined ||
         m.stands == standing::training || m.stands == standing::finished;
}
inline constexpr std::string_view peers_saw_it_die = "its peers saw its training thread die";
// Killed for a reason of the machine's own, not only to make sure of a death.
[[nodiscard]] inline bool is_sentenced(const member& m) {
  return !m.kill_cause.empty() && m.kill_cause != peers_saw_it_die;
}
[[nodiscard]] inline bool gave_up(const member& m) {
  return m.gave_up;
}
[[nodiscard]] inline bool is_at_rest(const member& m) {
  return m.stands == standing::ready || m.stands == standing::parked;
}
// "snapshot:400", "checkpoint:400", "initial".
[[nodiscard]] inline std::string name_of(const std::optional<rung>& from) {
  if (!from) return "initial";
  return cat(from->from == rung::kind::snapshot ? "snapshot:" : "checkpoint:", from->iteration);
}
[[nodiscard]] inline bool keeps_state(const member& m) {
  return m.role == protocol::state_role::keep || m.role == protocol::state_role::apply_prepared;
}

}  // namespace ftrt::recovery
