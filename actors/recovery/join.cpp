#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>
#include <map>

// Setting up a generation, and what shows that it works: equal digests, then a commit.
namespace ftrt::recovery {
namespace {

double ms(time_point from, time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::int64_t whole(double number) {
  return static_cast<std::int64_t>(number + 0.5);
}

}  // namespace

void engine::begin_join() {
  FTRT_ASSERT(all(is_at_rest));
  s_.at = phase::joining;
  join_generation join{s_.generation, {}};
  for_each_rank([&](rank_id rank, member& m) {
    // Survivors never receive state: only the stateless may.
    if (m.has_state) FTRT_ASSERT(keeps_state(m));
    join.by_rank.push_back(join_of(rank));
    m.stands = standing::joining;
    m.digest.clear();
    m.finish.reset();
  });
  // What it keeps by now it got in a join before this one.
  for (loss& each : s_.unrecovered)
    if (each.source.empty() || !keeps_state(at(each.rank))) each.source = at(each.rank).source;
  act(std::move(join));
  arm(s_.group_wait, limits_.join_timeout);
  because(cat("generation ", s_.generation, " joins at iteration ", s_.from));
}

protocol::join engine::join_of(rank_id rank) const {
  const member& m = s_.ranks[rank.value()];
  protocol::join join{.generation = s_.generation,
                      .branch = s_.branch,
                      .rank = rank,
                      .world_size = limits_.world_size,
                      .role = m.role,
                      .iteration = s_.from,
                      .source = {},
                      .checkpoint_directory = s_.loaded ? s_.loaded->directory : std::string{},
                      .digest_every = limits_.digest_every,
                      .left_out = {}};
  join.left_out.assign(std::ranges::upper_bound(s_.left_out, s_.from), s_.left_out.end());
  if (m.role != protocol::state_role::receive) return join;
  join.source = s_.giver;
  FTRT_ASSERT(join.source != rank);
  return join;
}

void engine::handle(const worker_joined& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr || !of_this_generation(e.joined.generation)) return;
  if (m->stands == standing::revoking) {
    m->has_state = true;  // it made it before it left: a replica more
    return because("it joined just before it was revoked");
  }
  if (m->stands != standing::joining) return because("it was not asked to join");
  m->stands = standing::joined;
  m->has_state = true;
  m->digest = cat(e.joined.iteration, " ", e.joined.state_digest);
  m->state_ns = e.joined.state_ns;
  because(cat("rank ", e.rank, " joined"));
  if (all([](const member& each) { return each.stands == standing::joined; })) compare_joined();
}

// Those that kept their state decide among themselves; who copied it is right where it equals it.
void engine::compare_joined() {
  const bool kept = std::ranges::any_of(s_.ranks, keeps_state);
  std::vector<std::string> votes;
  for (const member& m : s_.ranks) votes.push_back(!kept || keeps_state(m) ? m.digest : "");
  auto odd = minority(votes);
  if (odd) {
    const auto is_odd = [&](std::uint32_t r) {
      return std::ranges::find(*odd, rank_id{r}) != odd->end();
    };
    std::string right;
    for (std::uint32_t r = 0; r < votes.size(); ++r)
      if (!votes[r].empty() && !is_odd(r)) right = votes[r];
    for_each_rank([&](rank_id rank, const member& m) {
      if (votes[rank.value()].empty() && m.digest != right) odd->push_back(rank);
    });
    const std::string expected = cat(s_.from, " ");
    if (odd->empty() && right.starts_with(expected)) return train();
    if (!right.starts_with(expected)) odd.reset();
  }
  settle_disagreement(odd, "state digests differ after the join");
}

std::optional<std::vector<rank_id>> engine::minority(const std::vector<std::string>& votes) {
  std::map<std::string, std::size_t> count;
  std::size_t total = 0;
  for (const std::string& vote : votes)
    if (!vote.empty()) ++count[vote], ++total;
  const auto winner =
      std::ranges::find_if(count, [&](const auto& each) { return 2 * each.second > total; });
  if (winner == count.end()) return std::nullopt;
  std::vector<rank_id> odd;
  for (std::uint32_t r = 0; r < votes.size(); ++r)
    if (!votes[r].empty() && votes[r] != winner->first) odd.emplace_back(r);
  return odd;
}

// The odd ones die; where nobody can say who they are, nobody's state counts.
void engine::settle_disagreement(const std::optional<std::vector<rank_id>>& odd,
                                 const std::string& what) {
  // Ranks that trained with the others gave them gradients of a wrong state; a copy that went wrong
  // on its way harmed nobody. Without anybody that trained, the checkpoint itself was read
  // differently, and what was agreed before says nothing of it.
  const auto trained = [&](rank_id rank) { return at(rank).has_state && keeps_state(at(rank)); };
  if (odd && std::ranges::any_of(*odd, trained)) return disbelieve(*odd, what);
  if (!odd && std::ranges::any_of(s_.ranks, keeps_state)) return disbelieve({}, what);
  tell(event::kind::warning, std::nullopt, what);
  because(what);
  if (!odd) s_.distrust = s_.distrust_memory = true;
  if (odd)
    for (const rank_id rank : *odd) doom(rank, cat(what, ": it disagrees with the majority"));
  generation_failed(what);
  if (s_.at != phase::ended) regroup();
}

void engine::handle(const worker_join_failed& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr || !of_this_generation(e.failed.generation)) return;
  if (m->stands != standing::joining) return because("it was not asked to join");
  const error_code code = e.failed.code;
  if (code == error_code::corrupt && s_.loaded) {
    s_.quarantined.push_back(*s_.loaded);
  } else if (code != error_code::peer_lost && code != error_code::aborted &&
             code != error_code::timeout && ++m->join_failures > 1 && !keeps_state(*m)) {
    doom(e.rank, cat("failed to join again: ", e.failed.text));
  }
  generation_failed(cat("rank ", e.rank, " could not join: ", e.failed.text));
  because(s_.last_cause);
  if (s_.at != phase::ended) regroup();
}

void engine::train() {
  s_.at = phase::training;
  s_.group_wait = {};
  s_.trained_at = now_;
  s_.quarantined.clear();
  s_.agreed = s_.from;
  s_.dead_decided.clear();
  s_.dead_committed = {};
  for (member& m : s_.ranks) m.stands = standing::training;
  act(start_training{s_.generation});
  if (s_.stop_wanted) act(ask_to_stop{});
  because(cat("generation ", s_.generation, " trains from iteration ", s_.from));
}

void engine::handle(const progressed& e) {
  if (!of_this_generation(e.generation)) return;
  if (s_.at != phase::training) return because("the generation does not train");
  std::uint64_t committed = e.committed.value();
  if (limits_.total_iterations > 0) committed = std::min(committed, limits_.total_iterations);
  because(cat("iteration ", committed, " is committed"));
  note_progress(iteration_id{committed}, std::min(e.first_at.value_or(now_), now_));
}

void engine::note_progress(iteration_id committed, time_point first_at) {
  s_.highest = std::max(s_.highest, committed);
  std::erase_if(s_.suspects, [&](const suspect& each) { return each.iteration <= committed; });
  if (committed > s_.frontier) {
    s_.frontier = committed;
    s_.barren = 0;
    s_.not_finite = 0;
    for (member& m : s_.ranks) m.attempts = m.join_failures = 0;
  }
  if (committed > s_.from) record_recoveries(first_at);
}

// The newest generation has committed: what was lost before it began is made good.
void engine::record_recoveries(time_point resumed_at) {
  std::vector<loss> still;
  for (loss& each : s_.unrecovered) {
    if (each.generation >= s_.generation) {
      still.push_back(std::move(each));
      continue;
    }
    const std::string source = each.source;
    const recovery_times times = times_of(each, resumed_at);
    const double resumed_ms =
        times.detect_ms + times.park_ms + times.spawn_ms + times.join_ms + times.first_step_ms;
    act(record_recovery{s_.generation, each.rank, each.cause, source, times.detect_ms, resumed_ms,
                        s_.abandoned.value(), times});
    tell(event::kind::recovered, each.rank,
         cat("from ", source, " after ", whole(resumed_ms), " ms (detect ", whole(times.detect_ms),
             ", park ", whole(times.park_ms), ", spawn ", whole(times.spawn_ms), ", join ",
             whole(times.join_ms), ", first step ", whole(times.first_step_ms), "), ", s_.abandoned,
             " iterations lost"));
  }
  s_.unrecovered = std::move(still);
  s_.abandoned = {};
}

// Stretches that follow each other, so that their sum is the whole. What went on in generations
// that failed in between counts as parking and spawning.
recovery_times engine::times_of(const loss& lost, time_point resumed_at) const {
  const time_point parked = std::max(lost.detected_at, s_.parked_at);
  const time_point rested = std::max(parked, s_.rested_at);
  const time_point trained = std::max(rested, s_.trained_at);
  recovery_times times;
  times.detect_ms = ms(lost.fault_at, lost.detected_at);
  times.park_ms = ms(lost.detected_at, parked);
  times.spawn_ms = ms(parked, rested);
  times.join_ms = ms(rested, trained);
  const std::uint64_t state_ns = s_.ranks[lost.rank.value()].state_ns;
  times.state_ms = std::min(times.join_ms, static_cast<double>(state_ns) / 1e6);
  times.first_step_ms = ms(trained, std::max(trained, resumed_at));
  return times;
}

}  // namespace ftrt::recovery
