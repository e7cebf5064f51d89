#include <algorithm>
#include <tests/actors/recovery/simulator.hpp>

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
  after(at - now_, [this, rank, incarnation, command = std::move(command)] {
    worker& x = ranks_[rank].back();
    if (x.incarnation == incarnation && x.alive && !x.deaf) command(x);
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
  return (w.damaged ? "bad" : "s") + std::to_string(w.committed.value());
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
  w.phase = worker_phase::parked;
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
  w.generation = j.generation;
  w.join = j;
  w.phase = worker_phase::joining;
  if (!any_damage_) {
    if (j.role == state_role::keep)
      require(w.has_state && w.committed == j.iteration,
              "keep what? rank " + std::to_string(j.rank.value()) + " stands at " +
                  std::to_string(w.committed.value()) + " g" +
                  std::to_string(w.generation.value()) + (w.has_state ? " with state" : ""));
    if (j.role == state_role::apply_prepared)
      require(w.has_state && (w.prepared == j.iteration), "apply what?");
    if (j.role != state_role::keep && j.role != state_role::apply_prepared)
      require(!w.has_state, "a rank with state is overwritten");
  }
  if (j.role != state_role::keep && j.role != state_role::apply_prepared) w.has_state = false;
  try_setup(j.generation);
}

// The communicator stands once all are in it.
void simulator::try_setup(generation_id g) {
  for (auto& all : ranks_) {
    const worker& w = all.back();
    if (!w.alive || w.deaf || w.generation != g || w.phase != worker_phase::joining) return;
  }
  for (auto& all : ranks_) later(all.back(), [this](worker& w) { complete_join(w); });
}

void simulator::complete_join(worker& w) {
  const protocol::join& j = w.join;
  if (result_.faults > 0 && dice_.below(60) == 0) return fail_join(w, error_code::io);
  switch (j.role) {
    case state_role::keep:
      break;
    case state_role::apply_prepared:
      w.committed = j.iteration;
      break;
    case state_role::receive: {
      const worker& source = newest(j.source);
      if (!source.alive || source.generation != j.generation)
        return fail_join(w, error_code::peer_lost);
      if (source.committed != j.iteration)  // has still to apply
        return later(w, [this](worker& x) { complete_join(x); });
      w.committed = source.committed;
      w.damaged = source.damaged;
      break;
    }
    case state_role::load_checkpoint: {
      const std::uint64_t k = j.iteration.value();
      if (std::ranges::count(bad_checkpoints_, k) > 0) return fail_join(w, error_code::corrupt);
      w.committed = j.iteration;
      w.damaged = false;
      break;
    }
    case state_role::initial:
      w.committed = {};
      w.damaged = false;
  }
  w.has_state = true;
  w.phase = worker_phase::joined;
  from_worker(w, worker_joined{w.rank, w.incarnation, {j.generation, w.committed, digest(w)}});
}

void simulator::fail_join(worker& w, error_code code) {
  from_worker(w, worker_join_failed{w.rank, w.incarnation, {w.generation, code, "cannot join"}});
}

// ---- training ----------------------------------------------------------------------------------

void simulator::contribute(worker& w) {
  for (auto& all : ranks_)
    for (const worker& other : all)
      require(
          !other.alive || other.phase != worker_phase::training || other.generation == w.generation,
          "two generations train at once");
  if (w.failure) return;
  if (w.threw) return fail_program(w);
  const std::uint64_t k = w.committed.value() + 1;
  require(k <= history_ + 1, "an iteration is skipped");
  w.prepared = iteration_id{k};
  w.decided = false;
  group& g = groups_[w.generation.value()];
  g.stop[k] = g.stop[k] || w.stop_bit;
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
  w.decided = true;
  later(w, [this, k](worker& x) { commit(x, k); });
}

void simulator::commit(worker& w, std::uint64_t k) {
  if (w.failure || w.committed.value() + 1 != k) return;
  w.committed = iteration_id{k};
  history_ = std::max(history_, k);
  if (k % 3 == 0 && std::ranges::count(checkpoints_, k) == 0 && dice_.chance(60)) {
    checkpoints_.push_back(k);
    if (dice_.chance(10)) bad_checkpoints_.push_back(k);
  }
  if (dice_.chance(50)) post(progressed{w.generation, w.committed});
  if (k >= policy_.total_iterations || groups_[w.generation.value()].stop[k]) return finish(w);
  later(w, [this](worker& x) { contribute(x); });
}

void simulator::finish(worker& w) {
  w.phase = worker_phase::finished;
  protocol::finished f;
  f.generation = w.generation;
  f.iteration = w.committed;
  f.stopped = w.committed.value() < policy_.total_iterations;
  f.weights_digest = digest(w);
  w.report = f;
  from_worker(w, worker_finished{w.rank, w.incarnation, f});
}

}  // namespace ftrt::recovery::sim
