#include <actors/recovery/engine.hpp>
#include <algorithm>

// Every wait ends: what to do when a deadline passes.
namespace ftrt::recovery {
namespace {

constexpr std::uint32_t max_kills = 10;
constexpr std::uint32_t max_asks = 3;

}  // namespace

void engine::handle(const deadline_passed& e) {
  if (e.token == 0) return because("no deadline has token 0");
  if (e.token == s_.stop_wait.token) return stop_is_late();
  if (e.token == s_.group_wait.token) return group_is_late();
  if (e.token == s_.verdict_wait.token) {
    because("its peers did not say the same");
    return std::ranges::any_of(s_.ranks, gave_up) ? answer_not_finite() : convict();
  }
  const std::uint64_t r = rank_of_token(e.token);
  if (r < s_.ranks.size() && s_.ranks[r].wait.token == e.token)
    return rank_is_late(rank_id{static_cast<std::uint32_t>(r)});
  because("that wait is over");
}

void engine::rank_is_late(rank_id rank) {
  member& m = at(rank);
  m.wait = {};
  switch (m.stands) {
    case standing::starting:
      ++m.false_starts;
      [[fallthrough]];
    case standing::queried:
      return doom(rank, "did not say hello in time");
    case standing::revoking:
      return doom(rank, "did not leave its generation in time");
    case standing::doomed:
      if (++m.kills >= max_kills)  // a zombie may still write into its peers' buckets
        return end(run_outcome::failed, cat("rank ", rank, " cannot be killed (", m.kill_cause,
                                            "): its process ignores SIGKILL"));
      act(kill_worker{rank, m.incarnation, m.kill_cause});
      arm_rank(rank, limits_.park_timeout);
      return because(cat("rank ", rank, " is killed again"));
    default:
      because(cat("rank ", rank, " did not repeat that it finished"));
      generation_failed(cat("rank ", rank, " did not repeat that it finished"));
      if (s_.at != phase::ended) regroup();
  }
}

void engine::group_is_late() {
  s_.group_wait = {};
  if (s_.at == phase::joining) {
    generation_failed(cat("generation ", s_.generation, " did not join in time"));
    because(s_.last_cause);
    if (s_.at != phase::ended) regroup();
    return;
  }
  if (s_.final_pause) {
    because("the final checkpoint is tried again");
    return regroup();
  }
  const bool again = ++s_.asks <= max_asks;
  if (again) arm(s_.group_wait, limits_.checkpoint_timeout);
  because(again ? "asked again" : "no answer");
  if (s_.at == phase::choosing) {
    if (again) return look_for_source();
    return end(run_outcome::failed, "no answer to the search for a snapshot or a checkpoint");
  }
  if (again) return act(await_final_checkpoint{s_.highest});
  retry_or_fail_final("nobody said that it was written");
}

// The ranks had their time to agree on a last iteration and to write it down.
void engine::stop_is_late() {
  for_each_rank([&](rank_id rank, const member& m) {
    if (m.stands != standing::absent)
      act(kill_worker{rank, m.incarnation, "the stop's deadline passed"});
  });
  const std::string why = s_.final_failure.empty() ? "" : cat(" (", s_.final_failure, ")");
  end(run_outcome::stopped, cat("the stop's deadline passed while ", to_string(s_.at),
                                "; no final checkpoint was committed", why,
                                "; the newest commit was iteration ", s_.highest));
}

}  // namespace ftrt::recovery
