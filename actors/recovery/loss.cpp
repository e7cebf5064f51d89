#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>
#include <limits>
#include <utility>

// Death, its replacement, and how much of it is too much.
namespace ftrt::recovery {
namespace {

constexpr std::chrono::nanoseconds shortest_pause = std::chrono::milliseconds{100};

// splitmix64: jitter must be a function of its inputs alone.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void engine::handle(const worker_lost& e) {
  if (find(e.rank, e.incarnation) != nullptr) lose(e.rank, e);
}

// A hint from the survivors, faster than the kernel's. Killing the dead is harmless and makes sure
// that the loss itself follows.
void engine::handle(const peers_reported_lost& e) {
  if (!of_this_generation(e.generation)) return;
  if (s_.at != phase::joining && s_.at != phase::training)
    return because("the generation is not in use");
  if (e.lost.empty()) {
    if (std::ranges::none_of(s_.ranks, is_straggler_doomed))
      generation_failed("the communicator broke and no rank could be named");
    because("the communicator broke and no rank could be named");
    if (s_.at != phase::ended) regroup();
    return;
  }
  for (const rank_id rank : e.lost)
    if (rank.value() < s_.ranks.size() && is_member(at(rank)))
      doom(rank, std::string{peers_saw_it_die});
  because("losses reported by peers");
}

void engine::lose(rank_id rank, const worker_lost& e) {
  remember_loss(rank, e);
  if (s_.at == phase::ended) return;  // over a poisoned batch
  member& m = at(rank);
  member kept;
  kept.incarnation = m.incarnation;
  kept.attempts = m.attempts;
  kept.replaced = m.replaced;
  kept.join_failures = m.join_failures;
  kept.false_starts = m.false_starts;
  const bool chosen = is_straggler_doomed(m);
  if (chosen) count_restart(kept);                        // one of the restarts, no attempt
  if (s_.at == phase::finishing) kept.finish = m.finish;  // its words still count
  m = std::move(kept);
  switch (s_.at) {
    case phase::finishing:
      return because("all had finished: its snapshot outlives it");
    case phase::taking_over:
      replace(rank);
      if (s_.at != phase::ended) settle_take_over();
      return;
    case phase::gathering:  // all others are on their way already
      replace(rank);
      if (s_.at != phase::ended) settle();
      return;
    case phase::training:
    case phase::joining:
      if (!chosen) generation_failed(s_.last_cause);
      [[fallthrough]];
    default:
      if (s_.at != phase::ended) regroup();
  }
}

void engine::remember_loss(rank_id rank, const worker_lost& e) {
  const member& m = at(rank);
  // A death that was only confirmed by the kill has its own cause.
  std::string cause = is_sentenced(m) ? cat(m.kill_cause, " (", e.cause, ")") : e.cause;
  if (cause.empty()) cause = "unknown";
  s_.last_cause = cat("rank ", rank, " lost: ", cause);
  s_.last_stderr = e.stderr_tail;
  because(s_.last_cause);
  tell(event::kind::worker_lost, rank, cause);
  const time_point fault = e.fault_at.count() > 0 ? std::min(e.fault_at, now_) : now_;
  // However many successors could not be started: it is one loss.
  const bool told_before = m.replaced == m.incarnation;  // to the supervisor before this one
  const bool known = (m.false_starts > 0 || told_before) &&
                     std::ranges::count(s_.unrecovered, rank, &loss::rank) > 0;
  if (!known) s_.unrecovered.push_back({rank, s_.generation, cause, fault, now_});
  if (may_blame_window(m, e)) suspect_window(rank, e, cause);
  if (!m.has_state) return;  // what its page says is not of this history
  std::uint64_t seen = e.committed.value();
  if (limits_.total_iterations > 0) seen = std::min(seen, limits_.total_iterations);
  s_.dead_committed = std::max(s_.dead_committed, iteration_id{seen});
  s_.dead_decided.emplace_back(seen);
  if (e.applying) s_.dead_decided.emplace_back(seen + 1);
  if (iteration_id{seen} <= s_.frontier) return;
  s_.barren = 0;  // it committed something new before it died
  for (member& each : s_.ranks) each.attempts = each.join_failures = 0;
}

void engine::order(rank_id rank, std::chrono::nanoseconds delay) {
  member& m = at(rank);
  FTRT_ASSERT(m.stands == standing::absent);
  m.incarnation = m.incarnation.next();
  m.stands = standing::starting;
  act(spawn_worker{rank, m.incarnation, delay});
  arm_rank(rank, delay + limits_.start_timeout);
}

void engine::replace(rank_id rank) {
  if (limits_.wait_for_replacement && at(rank).false_starts > 0) {
    ++s_.restarts_total;
    return order(rank, pause_after(at(rank).false_starts));
  }
  forget_old_restarts();
  // Where the supervisor before this one died before it ordered a successor, it is one loss still.
  if (count_restart(at(rank))) ++at(rank).attempts;
  if (within_budget(rank)) order(rank, backoff(rank));
}

bool engine::count_restart(member& m) {
  if (std::exchange(m.replaced, m.incarnation) == m.incarnation) return false;
  ++s_.restarts_total;
  s_.restarts.push_back(now_);
  return true;
}

void engine::forget_old_restarts() {
  if (limits_.window.count() == 0) return;
  const auto fresh = [&](time_point t) { return t > now_ - limits_.window; };
  s_.restarts.erase(s_.restarts.begin(), std::ranges::find_if(s_.restarts, fresh));
}

void engine::doom(rank_id rank, std::string cause) {
  member& m = at(rank);
  FTRT_ASSERT(m.stands != standing::absent && m.stands != standing::doomed);
  m.stands = standing::doomed;
  m.kill_cause = std::move(cause);
  act(kill_worker{rank, m.incarnation, m.kill_cause});
  arm_rank(rank, limits_.park_timeout);
  because(cat("rank ", rank, " is killed: ", m.kill_cause));
}

void engine::generation_failed(const std::string& cause) {
  s_.last_cause = cause;
  if (++s_.barren > limits_.max_failures_without_progress)
    exhaust(cat(s_.barren, " generations in a row failed without a new commit (limit ",
                limits_.max_failures_without_progress, ")"));
}

bool engine::within_budget(rank_id rank) {
  if (at(rank).attempts > limits_.max_failures_without_progress) {
    exhaust(cat("rank ", rank, " was lost ", at(rank).attempts,
                " times in a row without a new commit (limit ",
                limits_.max_failures_without_progress, ")"));
  } else if (s_.restarts.size() > limits_.max_restarts) {
    exhaust(
        cat(s_.restarts.size(), " restarts within the window (limit ", limits_.max_restarts, ")"));
  }
  return s_.at != phase::ended;
}

void engine::exhaust(const std::string& which) {
  std::string text = cat(to_string(error_code::budget_exhausted), ": ", which,
                         "; the last failure: ", s_.last_cause);
  if (!s_.last_stderr.empty()) text += cat("; its standard error ends: ", s_.last_stderr);
  end(run_outcome::failed, std::move(text));
}

// None for the first failure, then exponential. Who stops has no time for it.
std::chrono::nanoseconds engine::backoff(rank_id rank) const {
  const std::uint64_t failures = std::max(s_.barren, s_.ranks[rank.value()].attempts);
  if (failures < 2 || s_.stop_wanted) return std::chrono::nanoseconds{0};
  return jittered(limits_.backoff_initial, failures - 2);
}

// Between two attempts to start a worker where there is nothing to start it from.
std::chrono::nanoseconds engine::pause_after(std::uint64_t false_starts) const {
  return jittered(std::max(limits_.backoff_initial, shortest_pause), false_starts - 1);
}

// Up to backoff_max, with jitter in [1/2, 1] of the nominal delay.
std::chrono::nanoseconds engine::jittered(std::chrono::nanoseconds initial,
                                          std::uint64_t doublings) const {
  if (initial.count() <= 0) return std::chrono::nanoseconds{0};
  const auto most = std::max(limits_.backoff_max, initial).count();
  auto nominal = initial.count();
  for (std::uint64_t i = 0; i < doublings && nominal < most; ++i)
    nominal = nominal > most / 2 ? most : nominal * 2;
  const double u =
      static_cast<double>(mix(limits_.backoff_seed ^ mix(s_.restarts_total)) >> 11) * 0x1.0p-53;
  return std::chrono::nanoseconds{
      static_cast<std::int64_t>(static_cast<double>(nominal) * (0.5 + 0.5 * u))};
}

}  // namespace ftrt::recovery
