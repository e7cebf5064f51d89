#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/context.hpp>
#include <actors/control/digest_reader.hpp>
#include <actors/control/straggler_reader.hpp>
#include <actors/recovery/machine.hpp>
#include <actors/recovery/progress_watch.hpp>
#include <caf/actor_addr.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ftrt::actors {

// A generation, and whether it lives.
struct generation_standing {
  recovery::phase at = recovery::phase::idle;
  generation_id generation;
};

// The state of the run_supervisor: the recovery machine and the two translations around it. Used by
// run_supervisor.cpp (inputs), run_supervisor_watch.cpp and run_supervisor_stragglers.cpp (inputs
// from the progress pages and rings) and run_supervisor_actions.cpp (actions) only; lives with its
// actor.
struct run_supervisor_state {
  run_supervisor_actor::pointer self = nullptr;
  const run_context* context = nullptr;
  std::optional<recovery::machine> machine;
  std::optional<recovery::progress_watch> watch;
  std::map<caf::actor_addr, std::pair<rank_id, incarnation_id>> monitored;
  std::optional<digest_reader> digests;
  std::optional<straggler_reader> stragglers;
  std::chrono::nanoseconds stragglers_due{};  // the next look for them
  iteration_id reported;                      // the last `progressed`
  std::set<generation_id> redone;             // generations whose last iteration was abandoned
  std::optional<iteration_id> awaited_checkpoint;
  std::chrono::nanoseconds asked_at{};                     // for it, the last time
  std::optional<recovery::end_run> outcome;                // said until it is heard
  std::set<std::pair<rank_id, incarnation_id>> cancelled;  // killed before their backoff was over
  // The generation on record whose commits are not in the ledger yet, and where it began.
  std::optional<recovery::record_generation> open_ledger;

  static constexpr const char* name = "run_supervisor";

  // Inputs.
  void feed(const recovery::input& input);
  void keep_last_words(const generation_standing& before,
                       const std::vector<recovery::action>& next);
  void adopt(const trainer_ready& ready);
  void down(const caf::down_msg& message);
  void lost(rank_id rank, incarnation_id incarnation);
  void hear(const worker_message& said);
  void settled(const checkpoint_settled& said);
  // run_supervisor_watch.cpp: at every tick.
  void look_at_progress();
  void look_for_stop();
  [[nodiscard]] std::vector<recovery::sighting> sight() const;
  void report_commits(const std::vector<recovery::sighting>& seen);
  [[nodiscard]] std::optional<recovery::time_point> first_commit(rank_id rank) const;
  void compare_digests();
  void look_for_hangs(const std::vector<recovery::sighting>& seen);
  // run_supervisor_stragglers.cpp
  void look_for_stragglers(const std::vector<recovery::sighting>& seen);
  void tell_stragglers(const recovery::straggler_watch::judgement& found);
  void offer_straggler(const std::vector<recovery::sighting>& seen);
  void tell_speeds();

  // Actions.
  void act(const recovery::spawn_worker& what);
  void act(const recovery::kill_worker& what);
  void act(const recovery::revoke_generation& what);
  void act(const recovery::find_source& what);
  void act(const recovery::join_generation& what);
  void act(const recovery::start_training& what);
  void act(const recovery::ask_to_stop& what);
  void act(const recovery::query_workers& what);
  void act(const recovery::record_generation& what);
  void act(const recovery::record_recovery& what);
  void act(const recovery::report_poison& what);
  void act(const recovery::set_deadline& what);
  void act(const recovery::await_final_checkpoint& what);
  void act(const recovery::announce& what);
  void act(const recovery::end_run& what);

  void spawn(const recovery::spawn_worker& what);
  void tell(rank_id rank, const protocol::message& message) const;
  void tell_all(const protocol::message& message) const;
  void close_ledger(iteration_id last);
  void continue_ledger();
};

}  // namespace ftrt::actors
