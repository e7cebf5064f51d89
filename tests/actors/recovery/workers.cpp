#include <algorithm>
#include <optional>
#include <tests/actors/recovery/simulator.hpp>
#include <utility>

// Model workers: lockstep iterations with prepare, decide, commit; everything between may be cut.
namespace ftrt::recovery::sim {

using protocol::state_role;
using protocol::worker_phase;

// Two channels, each in order, not ordered between each other.
void simulator::tell(std::uint32_t rank, incarnation_id incarnation, bool lifeline,
                     std::function<void(worker&)> command) {
  worker& w = ranks_[rank].back();
  time_point at = now_ + latency();
  if (!lifeline) at = w.last_told = std::max(at, w.last_told + std::chrono::nanoseconds(1));
  after(at - now_,
        [this, rank, incarnation, lifeline, link = w.link, command = std::move(command)] {
          worker& x = ranks_[rank].back();
          if (x.incarnation != incarnation || !x.alive || x.deaf) return;
          if (lifeline || x.link == link) command(x);
        });
}

// The worker goes on by itself, if it still stands where it stood.
void simulator::later(worker& w, std::function<void(worker&)> what) {
  after(latency(), [this, rank = w.rank, who = w.incarnation, g = w.generation, phase = w.phase,
                    what = std::move(what)] {
    auto& all = ranks_[rank.value()];
    if (all.empty()) return;
    worker& x = all.back();
    if (x.incarnation == who && x.alive && !x.deaf && x.generation == g && x.phase == phase)
      what(x);
  });
}

std::string simulator::digest(const worker& w) const {
  return std::to_string(w.content);
}

// ---- where workers stand, counted, so that ten thousand need not be looked at ------------------

void simulator::count(const worker& w, std::int64_t by) {
  if (!w.alive) return;
  places_[w.generation.value()][static_cast<std::size_t>(w.phase)] += by;
  if (w.phase == worker_phase::training) training_ += by;
  if (w.deaf) deaf_ += by;
}

void simulator::set_place(worker& w, worker_phase phase, generation_id generation) {
  count(w, -1);
  w.phase = phase;
  w.generation = generation;
  count(w, 1);
}

// ---- state, as a number that depends on every commit -------------------------------------------

// No rank survives to compute a poisoned window, so that whoever is past it left it out.
std::uint64_t simulator::next_content(std::uint64_t content, std::uint64_t k) const {
  return poison_.contains(k) ? content : dice(content * 31 + k).next();
}

bool simulator::kills(std::uint64_t k, const worker& w) const {
  const auto found = poison_.find(k);
  if (found == poison_.end() || std::ranges::binary_search(w.join.left_out, iteration_id{k}))
    return false;
  return found->second.value_or(w.rank.value()) == w.rank.value();
}

std::uint64_t simulator::expected_content(std::uint64_t k) {
  while (expected_.size() <= k)
    expected_.push_back(next_content(expected_.back(), expected_.size()));
  return expected_[k];
}

bool simulator::is_wrong(const worker& w) {
  return w.has_state && w.content != expected_content(w.committed.value());
}

// What a damaged rank added to the sum is in everybody's state from then on.
void simulator::apply(worker& w, iteration_id k) {
  newest_ever_ = std::max(newest_ever_, k.value());
  w.content = next_content(w.content ^ groups_[w.prepared_in.value()].wrong[k.value()], k.value());
  w.committed = k;
}

void simulator::take_snapshot(worker& w) {
  snapshot s{w.generation, w.join.branch, w.committed, w.content, false, false};
  s.torn = noise() && dice_.chance(4);
  s.poisoned = noise() && dice_.chance(2);
  if (w.snapshots.size() == 3) w.snapshots.erase(w.snapshots.begin());
  w.snapshots.push_back(s);
}

void simulator::say_hello(worker& w) {
  protocol::hello h;
  h.rank = w.rank;
  h.incarnation = w.incarnation;
  h.generation = w.generation;
  h.committed = w.committed;
  h.phase = w.phase;
  h.has_state = w.has_state;
  from_worker(w, worker_said_hello{h});
  if (w.report) from_worker(w, worker_finished{w.rank, w.incarnation, *w.report});
  if (w.failure) from_worker(w, worker_program_failed{w.rank, w.incarnation, *w.failure});
}

void simulator::revoke(worker& w, generation_id g) {
  w.revoked = std::max(w.revoked, g);
  if (w.generation > g) return;
  set_place(w, worker_phase::parked, w.generation);
  w.report.reset();
  w.failure.reset();
  const iteration_id prepared = w.prepared > w.committed ? w.prepared : iteration_id{};
  from_worker(
      w, worker_parked{w.rank,
                       w.incarnation,
                       {g, w.committed, prepared, w.decided && prepared.value() > 0, w.has_state}});
}

void simulator::enter(worker& w, const protocol::join& j) {
  if (j.generation <= w.revoked || j.generation <= w.generation) return;
  if (w.phase == worker_phase::training) {
    require(false, "a training worker is told to join another generation");
  }
  set_place(w, worker_phase::joining, j.generation);
  w.join = j;
  if (!any_damage_ && !gone_back_) {
    if (j.role == state_role::keep)
      require(w.has_state && w.committed == j.iteration,
              "keep what? rank " + std::to_string(j.rank.value()) + " stands at " +
                  std::to_string(w.committed.value()) + " g" +
                  std::to_string(w.generation.value()) + (w.has_state ? " with state" : ""));
    if (j.role == state_role::apply_prepared)
      require(w.has_state && (w.prepared == j.iteration), "apply what?");
    if (j.role != state_role::keep && j.role != state_role::apply_prepared)
      require(!w.has_state || !w.proved, "a rank with state is overwritten");
  }
  if (j.role != state_role::keep && j.role != state_role::apply_prepared) {
    w.has_state = w.proved = w.decided = false;
    w.prepared = {};
  }
  try_setup(j.generation);
}

// The communicator stands once all are in it.
void simulator::try_setup(generation_id g) {
  const auto joining = places_[g.value()][static_cast<std::size_t>(worker_phase::joining)];
  if (joining != static_cast<std::int64_t>(ranks_.size()) || deaf_ > 0) return;
  for (auto& all : ranks_) later(all.back(), [this](worker& w) { complete_join(w); });
}

void simulator::complete_join(worker& w) {
  const protocol::join& j = w.join;
  if (noise() && dice_.below(60) == 0) return fail_join(w, error_code::io);
  switch (j.role) {
    case state_role::keep:
      break;
    case state_role::apply_prepared:
      if (w.committed != j.iteration) apply(w, j.iteration);
      break;
    case state_role::receive: {
      const worker& source = newest(j.source);
      if (!source.alive || source.generation != j.generation)
        return fail_join(w, error_code::peer_lost);
      if (source.committed != j.iteration)  // has still to apply
        return later(w, [this](worker& x) { complete_join(x); });
      w.committed = source.committed;
      w.content = source.content;
      break;
    }
    case state_role::load_snapshot: {
      if (!shelf_ || shelf_->iteration != j.iteration) return fail_join(w, error_code::not_found);
      if (shelf_->poisoned) return fail_join(w, error_code::corrupt);
      w.committed = j.iteration;
      w.content = shelf_->content;
      break;
    }
    case state_role::load_checkpoint: {
      const std::uint64_t k = j.iteration.value();
      if (std::ranges::count(bad_checkpoints_, k) > 0) return fail_join(w, error_code::corrupt);
      w.committed = j.iteration;
      w.content = checkpoint_content_[k];
      break;
    }
    case state_role::initial:
      w.committed = {};
      w.content = 0;
  }
  require(any_damage_ || w.content == expected_content(w.committed.value()),
          "rank " + std::to_string(w.rank.value()) + " joined with another iteration's state");
  w.has_state = true;
  set_place(w, worker_phase::joined, w.generation);
  from_worker(w, worker_joined{
                     w.rank, w.incarnation, {j.generation, w.committed, digest(w), dice_.next()}});
}

void simulator::fail_join(worker& w, error_code code) {
  from_worker(w, worker_join_failed{w.rank, w.incarnation, {w.generation, code, "cannot join"}});
}

// ---- training ----------------------------------------------------------------------------------

void simulator::contribute(worker& w) {
  require(training_ == places_[w.generation.value()][static_cast<std::size_t>(w.phase)],
          "two generations train at once");
  if (w.failure) return;
  if (w.threw) return fail_program(w);
  const std::uint64_t k = w.committed.value() + 1;
  require(k <= history_ + 1, "an iteration is skipped");
  furthest_ = std::max(furthest_, k);
  if (kills(k, w)) {
    w.of_poison = true;
    return die(w, "killed by signal 6");
  }
  w.prepared = iteration_id{k};
  w.decided = false;
  w.prepared_in = w.generation;
  group& g = groups_[w.generation.value()];
  // Mixed, so that what it adds does not cancel what is wrong in its own state.
  if (any_damage_ && is_wrong(w)) g.wrong[k] ^= next_content(w.content, k);
  g.stop[k] = g.stop[k] || w.stop_bit;
  g.not_finite[k] = g.not_finite[k] || std::exchange(w.nan, false);
  if (++g.contributed[k] < ranks_.size()) return;
  for (auto& all : ranks_)
    if (all.back().generation == w.generation && all.back().phase == worker_phase::training)
      later(all.back(), [this, k](worker& x) { decide(x, k); });
}

// The loop is left, the process stands: until it is revoked or killed nothing moves.
void simulator::fail_program(worker& w) {
  w.threw = false;
  w.failure = protocol::program_failed{w.generation, w.committed, "bad batch"};
  from_worker(w, worker_program_failed{w.rank, w.incarnation, *w.failure});
}

void simulator::decide(worker& w, std::uint64_t k) {
  if (w.failure || w.prepared.value() != k || w.committed.value() >= k) return;
  if (groups_[w.generation.value()].not_finite[k]) return give_up(w, k);
  w.decided = true;
  later(w, [this, k](worker& x) { commit(x, k); });
}

// All read that in the decision word: nobody applies it.
void simulator::give_up(worker& w, std::uint64_t k) {
  w.prepared = w.committed;
  write_digest(w);
  set_place(w, worker_phase::parked, w.generation);
  from_worker(w, worker_not_finite{w.rank, w.incarnation, {w.generation, iteration_id{k}, {}}});
}

void simulator::commit(worker& w, std::uint64_t k) {
  if (w.failure || w.committed.value() + 1 != k) return;
  apply(w, iteration_id{k});
  require(any_damage_ || w.content == expected_content(k),
          "iteration " + std::to_string(k) + " is committed with another result");
  history_ = std::max(history_, k);
  if (k % 2 == 0) take_snapshot(w);
  if (k % 3 == 0 && std::ranges::count(checkpoints_, k) == 0 && dice_.chance(60)) {
    checkpoints_.push_back(k);
    checkpoint_content_[k] = w.content;
    if (dice_.chance(10)) bad_checkpoints_.push_back(k);
  }
  if (dice_.below(ranks_.size()) < 2) {
    // What a diary says of when that was may be missing, and is never trusted.
    const auto told = dice_.chance(50) ? std::optional{now_ * dice_.below(5) / 3} : std::nullopt;
    post(progressed{w.generation, w.committed, told});
  }
  if (k % 2 == 0) write_digest(w);
  if (k >= policy_.total_iterations || groups_[w.generation.value()].stop[k]) return finish(w);
  later(w, [this](worker& x) { contribute(x); });
}

// Into its ring, which outlives it.
void simulator::write_digest(const worker& w) {
  if (plan_.ranks == 0) written_.push_back({w.rank, w.generation, w.committed, digest(w)});
}

void simulator::finish(worker& w) {
  write_digest(w);
  set_place(w, worker_phase::finished, w.generation);
  protocol::finished f;
  f.generation = w.generation;
  f.iteration = w.committed;
  f.stopped = w.committed.value() < policy_.total_iterations;
  f.weights_digest = digest(w);
  w.report = f;
  from_worker(w, worker_finished{w.rank, w.incarnation, f});
}

}  // namespace ftrt::recovery::sim
