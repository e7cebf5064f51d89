#include <actors/recovery/engine.hpp>
#include <actors/recovery/machine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>

namespace ftrt::recovery {
namespace {

constexpr std::uint32_t checked_at_once = 32;

}  // namespace

transition step(state s, const policy& limits, const input& in, time_point now) {
  FTRT_ASSERT(limits.world_size > 0);
  return engine(std::move(s), limits, now).run(in);
}

transition engine::run(const input& in) && {
  if (s_.ranks.empty()) s_.ranks.resize(limits_.world_size);
  FTRT_ASSERT(s_.ranks.size() == limits_.world_size);
  if (s_.at == phase::ended) {
    because("the run has ended");
  } else {
    std::visit([this](const auto& e) { handle(e); }, in);
  }
  FTRT_ASSERT(!reason_.empty());
  check_invariants();
  return {std::move(s_), std::move(actions_), std::move(reason_)};
}

failure_counts counts_of(const state& s) {
  failure_counts counts{s.suspects, s.barren, s.not_finite,  s.restarts_total,
                        s.restarts, {},       s.unrecovered, s.abandoned};
  for (const member& m : s.ranks) counts.ranks.push_back({m.attempts, m.replaced});
  return counts;
}

member* engine::find(rank_id rank, incarnation_id incarnation) {
  if (rank.value() < s_.ranks.size()) {
    member& m = at(rank);
    if (m.incarnation == incarnation && m.stands != standing::absent) return &m;
  }
  fence(cat("rank ", rank, ", incarnation ", incarnation));
  return nullptr;
}

bool engine::of_this_generation(generation_id g) {
  if (g == s_.generation) return true;
  fence(cat("generation ", g, ", the newest is ", s_.generation));
  return false;
}

bool engine::all(bool (*is)(const member&)) {
  const auto n = static_cast<std::uint32_t>(s_.ranks.size());
  std::uint32_t& at = s_.last_looked_at.at;
  for (std::uint32_t looked = 0; looked < n; ++looked) {
    if (!is(s_.ranks[at])) return false;
    at = at + 1 == n ? 0 : at + 1;
  }
  return true;
}

void engine::fence(std::string_view what) {
  ++s_.fenced;
  because(cat("stale: ", what));
}

void engine::because(std::string text) {
  if (!reason_.empty()) reason_ += "; ";
  reason_ += text;
}

void engine::tell(event::kind kind, std::optional<rank_id> rank, std::string text) {
  act(announce{kind, s_.generation, s_.highest, rank, std::move(text)});
}

void engine::arm(deadline& d, std::chrono::nanoseconds after) {
  d = {make_token(++s_.last_token), now_ + after};
  act(set_deadline{d.token, d.at});
}

// The rank goes with the token, so that it is found again without a search.
void engine::arm_rank(rank_id rank, std::chrono::nanoseconds after) {
  deadline& d = at(rank).wait;
  d = {make_token(++s_.last_token, rank), now_ + after};
  act(set_deadline{d.token, d.at});
}

// At most one generation lives, and nobody is left behind in an older one. Who is waited for has a
// deadline.
void engine::check_member(const member& m) const {
  const bool alive =
      s_.at == phase::joining || s_.at == phase::training || s_.at == phase::finishing;
  if (!alive) FTRT_ASSERT(!is_member(m));
  if (s_.at == phase::joining || s_.at == phase::training)
    FTRT_ASSERT(is_member(m) || m.stands == standing::doomed);
  if (s_.at == phase::finishing)
    FTRT_ASSERT(m.stands == standing::finished || m.stands == standing::absent);
  if (s_.at == phase::choosing) FTRT_ASSERT(is_at_rest(m));
  const bool waits = m.stands == standing::starting || m.stands == standing::queried ||
                     m.stands == standing::revoking || m.stands == standing::doomed;
  if (waits) FTRT_ASSERT(m.wait.token != 0);
}

// In a large world some ranks after each step, by turns.
void engine::check_invariants() {
  if (s_.at == phase::ended) return;
  const auto n = static_cast<std::uint32_t>(s_.ranks.size());
  std::uint32_t& at = s_.last_checked.at;
  for (std::uint32_t checked = 0; checked < std::min(n, checked_at_once); ++checked) {
    check_member(s_.ranks[at]);
    at = at + 1 == n ? 0 : at + 1;
  }
  const bool group_waits =
      s_.at == phase::joining || s_.at == phase::choosing || s_.at == phase::finishing;
  FTRT_ASSERT(group_waits == (s_.group_wait.token != 0));
  // Gathering always waits for somebody: else it would have chosen.
  if (s_.at == phase::gathering) FTRT_ASSERT(!all(is_at_rest));
}

}  // namespace ftrt::recovery
