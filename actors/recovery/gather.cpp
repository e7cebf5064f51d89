#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>

// Revoke what lives, replace what is dead, and wait until every rank is at rest.
namespace ftrt::recovery {

// The one way out of every phase when membership or state must be computed again.
void engine::regroup() {
  s_.at = phase::gathering;
  s_.group_wait = {};
  s_.verdict_wait = {};
  s_.final_pause = false;
  for_each_rank([&](rank_id rank, member& m) {
    if (m.program_error && is_member(m)) doom(rank, cat("program error: ", *m.program_error));
  });
  revoke_members();
  for (std::uint32_t r = 0; r < s_.ranks.size() && s_.at != phase::ended; ++r)
    if (s_.ranks[r].stands == standing::absent) replace(rank_id{r});
  if (s_.at != phase::ended) settle();
}

void engine::revoke_members() {
  revoke_generation revoke{s_.generation, {}};
  for_each_rank([&](rank_id rank, member& m) {
    if (is_member(m)) revoke.ranks.push_back(rank);
  });
  if (revoke.ranks.empty()) return;
  act(revoke);
  for (const rank_id rank : revoke.ranks) {
    member& m = at(rank);
    m.stands = standing::revoking;
    m.gave_up = false;
    m.digest.clear();
    m.finish.reset();
    arm_rank(rank, limits_.park_timeout);
  }
  because(cat("generation ", s_.generation, " is revoked"));
}

void engine::handle(const worker_parked& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr || !of_this_generation(e.parked.generation)) return;
  if (m->stands != standing::revoking) return because("nothing was asked of it");
  const protocol::parked& said = e.parked;
  if (limits_.total_iterations > 0 && said.committed.value() > limits_.total_iterations)
    return doom(e.rank, cat("claims iteration ", said.committed, " of ", limits_.total_iterations));
  m->stands = standing::parked;
  m->wait = {};
  m->committed = said.committed;
  m->prepared = said.prepared;
  m->decided = said.decided;
  // Told to take other state and not known to have done so: what it holds may be of a void branch.
  m->has_state = m->has_state && said.has_state;
  s_.parked_at = now_;
  because(cat("rank ", e.rank, " parked at iteration ", said.committed));
  // What is distrusted is no progress, but it is history that a rollback has to void.
  if (m->has_state && s_.distrust) s_.highest = std::max(s_.highest, m->committed);
  if (m->has_state && !s_.distrust) note_progress(m->committed, now_);
  settle();
}

void engine::settle() {
  if (s_.at != phase::gathering || !all(is_at_rest)) return;
  choose();
}

}  // namespace ftrt::recovery
