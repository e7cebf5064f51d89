#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>

// All ranks are at rest: where does the state of the next generation come from?
namespace ftrt::recovery {
namespace {

constexpr std::size_t enough_evidence = 64;

protocol::state_role role_of(const std::optional<rung>& from) {
  if (!from) return protocol::state_role::initial;
  return from->from == rung::kind::snapshot ? protocol::state_role::load_snapshot
                                            : protocol::state_role::load_checkpoint;
}

}  // namespace

bool engine::is_survivor(const member& m) const {
  return m.stands == standing::parked && m.has_state && !s_.distrust;
}

// Did any rank, dead or alive, see the decision of iteration k? Only exact evidence counts: ranks
// of one generation are never further apart than one iteration, so that a damaged page of a dead
// rank cannot move anybody.
bool engine::decision_seen(iteration_id k) {
  if (evidence_ && evidence_->first == k) return evidence_->second;
  evidence_ = {k, look_for_evidence(k)};
  return evidence_->second;
}

bool engine::look_for_evidence(iteration_id k) const {
  if (s_.highest == k || std::ranges::find(s_.dead_decided, k) != s_.dead_decided.end())
    return true;
  return std::ranges::any_of(s_.ranks, [&](const member& m) {
    return is_survivor(m) && (m.committed == k || (m.prepared == k && m.decided));
  });
}

// The iteration at which this survivor can stand without help.
iteration_id engine::reach(const member& m) {
  const bool can_apply = m.prepared == m.committed.next() && decision_seen(m.prepared);
  return can_apply ? m.prepared : m.committed;
}

void engine::choose() {
  s_.rested_at = now_;
  std::optional<iteration_id> target;
  for (const member& m : s_.ranks)
    if (is_survivor(m)) target = std::max(target.value_or(iteration_id{}), reach(m));
  weigh_the_dead(target);
  if (!target) return ask_for_source();
  if (doom_those_behind(*target)) return;
  continue_from_survivors(*target);
}

// What the dead had committed counts as history; their pages are not trusted further than that.
void engine::weigh_the_dead(std::optional<iteration_id> target) {
  evidence_.reset();
  const iteration_id dead = s_.dead_committed;
  // One past the target: all survivors lack what only a dead rank had, so it is done again. More
  // than one past it cannot be: that page is damaged.
  if (!target || dead <= target->next()) s_.highest = std::max(s_.highest, dead);
  if (s_.dead_decided.size() > enough_evidence)
    s_.dead_decided.erase(s_.dead_decided.begin(), s_.dead_decided.end() - enough_evidence);
  s_.frontier = std::max(s_.frontier, s_.highest);
}

// A survivor that cannot reach the others' iteration has broken the protocol. It is not given
// state: it dies, and its successor is.
bool engine::doom_those_behind(iteration_id target) {
  bool any = false;
  for_each_rank([&](rank_id rank, member& m) {
    if (!is_survivor(m) || reach(m) == target) return;
    any = true;
    doom(rank, cat("stands at iteration ", m.committed, " and cannot reach ", target));
  });
  return any;
}

void engine::continue_from_survivors(iteration_id target) {
  std::optional<rank_id> source;
  bool source_keeps = false;
  for_each_rank([&](rank_id rank, member& m) {
    if (!is_survivor(m)) return;
    const bool keeps = m.committed == target;
    m.role = keeps ? protocol::state_role::keep : protocol::state_role::apply_prepared;
    m.source = cat("survivor:", rank);
    if (!source || (keeps && !source_keeps)) source = rank;
    source_keeps = source_keeps || keeps;
  });
  for_each_rank([&](rank_id, member& m) {
    if (is_survivor(m)) return;
    m.role = protocol::state_role::receive;
    m.source = cat("survivor:", *source);
  });
  s_.loaded.reset();
  s_.giver = *source;
  open_branch_at(target);
  begin_join();
}

void engine::ask_for_source() {
  s_.at = phase::choosing;
  s_.asks = 1;
  look_for_source();
  arm(s_.group_wait, limits_.checkpoint_timeout);
  because("no rank has state: memory and the catalog are asked");
}

// Snapshots are the workers' own word: where that is distrusted, only what is on disk counts.
void engine::look_for_source() {
  act(find_source{s_.generation, s_.quarantined, !s_.distrust_memory, s_.not_beyond});
}

void engine::handle(const source_found& e) {
  // An answer to an older question may be of history that is void by now.
  if (!of_this_generation(e.generation)) return;
  if (s_.at != phase::choosing) return because("no state is asked for");
  if (e.newest && s_.not_beyond && e.newest->iteration > *s_.not_beyond)
    return because("that state is past the last agreement: an answer to an older question");
  s_.not_beyond.reset();
  s_.distrust_memory = false;
  s_.distrust = false;
  s_.loaded = e.newest;
  for_each_rank([&](rank_id, member& m) {
    m.has_state = false;
    m.role = role_of(s_.loaded);
    m.source = name_of(s_.loaded);
  });
  open_branch_at(s_.loaded ? s_.loaded->iteration : iteration_id{});
  begin_join();
}

// Commits past `target` are void from now on, if there are any.
void engine::open_branch_at(iteration_id target) {
  s_.from = target;
  const auto reached = std::max(s_.highest, target);
  const bool back = reached > target || s_.resumed;
  const auto given_up = reached.value() - target.value();
  s_.abandoned = iteration_id{s_.abandoned.value() + given_up};
  s_.highest = target;
  s_.agreed = std::min(s_.agreed, target);
  s_.frontier = std::max(s_.frontier, target);
  s_.resumed = false;
  std::optional<iteration_id> rollback_to;
  if (back) {
    s_.branch = s_.branch.next();
    s_.dead_decided.clear();
    s_.dead_committed = {};
    rollback_to = target;
  }
  s_.generation = s_.generation.next();
  if (back) s_.branch_since = s_.generation;
  act(record_generation{s_.generation, s_.branch, target, s_.last_cause, rollback_to, reached});
  tell(event::kind::generation_began, std::nullopt, s_.last_cause);
  if (given_up > 0)
    tell(event::kind::rollback, std::nullopt,
         cat("back to iteration ", target, ": ", given_up, " committed iterations are lost"));
}

}  // namespace ftrt::recovery
