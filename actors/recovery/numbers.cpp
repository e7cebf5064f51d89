#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>

// Wrong numbers: states that differ where they must not, losses and gradients that are none.
namespace ftrt::recovery {
namespace {

std::string list(const std::vector<rank_id>& ranks) {
  std::string out;
  for (const rank_id rank : ranks) out += cat(out.empty() ? "" : ", ", rank);
  return out;
}

std::string describe_not_finite(const protocol::not_finite& found) {
  std::string text = cat("the loss or a gradient of iteration ", found.iteration, " is not finite");
  if (found.ranks.empty()) return text;
  return cat(text, " (on rank ", list(found.ranks), ")");
}

}  // namespace

// A new supervisor reads in the rings what the old one may not have acted on.
bool engine::compares_states() const {
  return s_.at == phase::training || s_.at == phase::taking_over;
}

void engine::handle(const states_agreed& e) {
  if (!of_this_generation(e.generation)) return;
  if (!compares_states()) return because("the generation does not train");
  because(cat("all ranks held one state at iteration ", e.iteration));
  s_.agreed = std::max(s_.agreed, e.iteration);
}

void engine::handle(const state_diverged& e) {
  if (!of_this_generation(e.generation)) return;
  if (!compares_states()) return because("the generation does not train");
  std::vector<rank_id> odd;
  std::ranges::copy_if(e.odd, std::back_inserter(odd), [&](rank_id rank) {
    if (rank.value() >= s_.ranks.size()) return false;
    const standing stands = at(rank).stands;
    return is_member(at(rank)) || stands == standing::queried || stands == standing::answered;
  });
  disbelieve(odd, cat("state diverged at iteration ", e.iteration));
}

// A rank that held another state than its peers computed gradients from it, and they are in the
// sums that everybody applied since the last agreement. So it is replaced, and all go back.
void engine::disbelieve(const std::vector<rank_id>& odd, const std::string& what) {
  go_back_to_agreement();
  const std::string back = cat("all go back to a state of iteration ", *s_.not_beyond,
                               ", where they last agreed, or before it");
  because(what);
  if (odd.empty())
    tell(event::kind::state_diverged, std::nullopt,
         cat(what, " without a majority, so that no rank can be named; ", back));
  for (const rank_id rank : odd) {
    tell(event::kind::state_diverged, rank,
         cat("its ", what, " from that of the majority; it is replaced, and ", back));
    doom(rank, cat("its ", what));
  }
  generation_failed(odd.empty() ? what : cat("rank ", list(odd), ": ", what));
  if (s_.at == phase::taking_over) return settle_take_over();
  if (s_.at != phase::ended) regroup();
}

void engine::go_back_to_agreement() {
  s_.distrust = true;
  s_.not_beyond = std::min(s_.agreed, s_.not_beyond.value_or(s_.agreed));
}

// All read the same word, so all say the same. What they last agreed on is known better once the
// last has spoken: before it spoke, each wrote the digest of what it held.
void engine::handle(const worker_not_finite& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr || !of_this_generation(e.found.generation)) return;
  if (m->stands != standing::training) return because("it does not train");
  const bool first = std::ranges::none_of(s_.ranks, gave_up);
  m->gave_up = true;
  if (first) {
    s_.last_cause = describe_not_finite(e.found);
    const bool one = e.found.ranks.size() == 1;
    tell(event::kind::not_finite, one ? std::optional(e.found.ranks.front()) : std::nullopt,
         s_.last_cause);
  }
  because(s_.last_cause);
  if (all(gave_up)) return answer_not_finite();
  if (s_.verdict_wait.token == 0) arm(s_.verdict_wait, limits_.verdict_timeout);
}

void engine::answer_not_finite() {
  s_.verdict_wait = {};
  const std::string what = s_.last_cause;
  if (limits_.on_non_finite == non_finite_policy::stop)
    return end(run_outcome::failed, cat(what, "; train.on_non_finite is \"stop\""));
  if (++s_.not_finite > limits_.max_non_finite_rollbacks)
    return end(run_outcome::failed,
               cat(what, " after ", s_.not_finite - 1, " rollbacks in a row without a new commit (",
                   "train.max_non_finite_rollbacks is ", limits_.max_non_finite_rollbacks, ")"));
  go_back_to_agreement();  // a state that nobody has compared yet may be the very cause
  generation_failed(what);
  if (s_.at != phase::ended) regroup();
}

}  // namespace ftrt::recovery
