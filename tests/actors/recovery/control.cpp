#include <algorithm>
#include <cmath>
#include <tests/actors/recovery/simulator.hpp>

// What control does with the machine's actions, and the laws that each of them must keep.
namespace ftrt::recovery::sim {

void simulator::carry_out(const spawn_worker& a) {
  auto& all = ranks_[a.rank.value()];
  require(all.empty() || !all.back().alive, "a rank is started while its old worker lives");
  require(a.incarnation.value() == (all.empty() ? 1 : all.back().incarnation.value() + 1),
          "incarnations are not counted by one");
  worker w;
  w.rank = a.rank;
  w.incarnation = a.incarnation;
  all.push_back(w);
  const std::uint64_t epoch = epoch_;
  after(a.delay + latency(), [this, a, epoch] {
    auto& each = ranks_[a.rank.value()];
    if (epoch != epoch_ || each.empty() || each.back().incarnation != a.incarnation) return;
    worker& born = each.back();
    if (born.forked) return;
    born.forked = true;
    if (noise() && dice_.chance(3))
      return post(worker_start_failed{a.rank, a.incarnation, "fork failed"});
    born.alive = true;
    count(born, 1);
    later(born, [this](worker& x) { say_hello(x); });
    forget_the_dead(each);
  });
}

// A straggler works: nothing may be risked to replace it.
void simulator::check_straggler(const kill_worker& a) {
  const state& now = machine_.current();
  require(policy_.replace_stragglers, "a straggler is killed where it was to be reported");
  require(!slow_killed_, "two stragglers are replaced at a time");
  require(ranks_.size() > 1, "a rank is slower than nobody");
  require(now.at == phase::training, "a straggler is killed while membership changes");
  require(!now.stop_wanted, "a straggler is killed while the run stops");
  require(now.unrecovered.empty(), "a straggler is killed before the last loss is made good");
  require(2 * (now.restarts.size() + 1) <= policy_.max_restarts, "a straggler takes the budget");
  slow_killed_ = a.rank;
  ++result_.stragglers;
}

void simulator::carry_out(const kill_worker& a) {
  const member& m = machine_.current().ranks[a.rank.value()];
  if (a.cause.starts_with("straggler") && m.kills == 0) check_straggler(a);
  for (worker& w : ranks_[a.rank.value()]) {
    if (w.incarnation != a.incarnation) continue;
    if (w.alive) return die(w, "killed by the supervisor");
    if (!w.forked) {
      w.forked = true;  // never will be
      report_loss(w, "not forked");
    }
    return;
  }
  require(false, "kills a worker that never was");
}

void simulator::carry_out(const revoke_generation& a) {
  for (const rank_id r : a.ranks) {
    tell(r.value(), newest(r).incarnation, false,
         [this, g = a.generation](worker& w) { revoke(w, g); });
  }
}

void simulator::carry_out(const find_source& a) {
  const source_found found{a.generation, newest_source(a)};
  offered_[a.generation.value()].push_back(found.newest);
  if (noise() && dice_.chance(2)) return;  // the answer is lost
  post_to_anyone(found);
}

void simulator::carry_out(const record_generation& a) {
  require(a.generation.value() > result_.generations, "a generation is used twice");
  result_.generations = a.generation.value();
  if (a.rollback_to) {
    require(a.branch.value() == branch_.value() + 1, "a rollback opens no new branch");
    require(a.rollback_to == a.from, "rolls back elsewhere");
    // Not fewer than there are; more where a new supervisor hears of a branch that is void already.
    require(a.reached.value() >= history_ || a.reached == a.from,
            "gives up commits to " + std::to_string(a.reached.value()) + ", history ends at " +
                std::to_string(history_));
    require(a.reached.value() <= newest_ever_, "gives up commits that never were");
    ++result_.rollbacks;
  } else {
    require(a.branch == branch_, "a new branch without a rollback");
    const std::uint64_t from = a.from.value();
    require(from == history_ || from == history_ + 1,
            "generation begins at " + std::to_string(from) + ", history ends at " +
                std::to_string(history_));
  }
  if (a.branch != branch_) branch_since_ = a.generation;
  branch_ = a.branch;
  newest_ever_ = std::max(newest_ever_, a.from.value());
  history_ = a.rollback_to ? a.from.value() : std::max(history_, a.from.value());
  std::erase_if(checkpoints_, [&](std::uint64_t k) { return k > history_; });
  if (a.rollback_to && shelf_ && shelf_->iteration > *a.rollback_to) shelf_.reset();
}

void simulator::carry_out(const join_generation& a) {
  require(a.by_rank.size() == ranks_.size(), "a rank is left out");
  for (const protocol::join& j : a.by_rank) {
    const worker& w = newest(j.rank);
    if (w.alive && w.has_state && w.proved && !gone_back_) {
      require(
          j.role == protocol::state_role::keep || j.role == protocol::state_role::apply_prepared,
          "a survivor receives state");
      require(j.iteration >= w.committed, "a committed iteration is given up while a copy lives");
    }
    check_source(j);
    const auto ahead = std::ranges::upper_bound(left_out_, j.iteration);
    require(std::ranges::equal(j.left_out, std::ranges::subrange(ahead, left_out_.end())),
            "a window that is left out is not left out by all and for good");
    tell(j.rank.value(), w.incarnation, true, [this, j](worker& x) { enter(x, j); });
  }
}

void simulator::carry_out(const start_training& a) {
  for (auto& all : ranks_)
    tell(all.back().rank.value(), all.back().incarnation, false, [this, a](worker& w) {
      if (w.phase != protocol::worker_phase::joined || w.generation != a.generation) return;
      set_place(w, protocol::worker_phase::training, w.generation);
      w.proved = true;
      if (w.committed.value() >= policy_.total_iterations) return finish(w);
      contribute(w);
    });
}

void simulator::carry_out(const ask_to_stop&) {
  for (auto& all : ranks_)
    tell(all.back().rank.value(), all.back().incarnation, false,
         [](worker& w) { w.stop_bit = true; });
}

void simulator::carry_out(const query_workers&) {
  for (auto& all : ranks_)
    if (!all.empty() && all.back().forked)
      tell(all.back().rank.value(), all.back().incarnation, false,
           [this](worker& w) { say_hello(w); });
}

void simulator::carry_out(const record_recovery& a) {
  ++result_.recoveries;
  if (slow_killed_ == a.rank) slow_killed_.reset();
  require(a.resumed_ms >= a.detected_ms && a.detected_ms >= 0, "times run backwards");
  const recovery_times& t = a.times;
  for (const double part : {t.detect_ms, t.park_ms, t.spawn_ms, t.join_ms, t.first_step_ms})
    require(part >= 0, "a stretch of the recovery is negative");
  const double sum = t.detect_ms + t.park_ms + t.spawn_ms + t.join_ms + t.first_step_ms;
  require(std::abs(sum - a.resumed_ms) < 1e-3, "the stretches are not the whole");
  require(t.state_ms >= 0 && t.state_ms <= t.join_ms, "a part is longer than its stretch");
  if (a.source.starts_with("snapshot:")) ++result_.from_snapshots;
  if (a.source.starts_with("checkpoint:")) ++result_.from_checkpoints;
}

void simulator::carry_out(const report_poison& a) {
  require(poison_.contains(a.iteration.value()), "a window is blamed that kills nobody");
  require(a.times == policy_.poison_limit, "a window is blamed too early or too late");
  require(!a.skipped || policy_.skip_poisoned, "a window is left out against the scenario");
  if (!a.skipped) return;
  const auto place = std::ranges::lower_bound(left_out_, a.iteration);
  require(place == left_out_.end() || *place != a.iteration, "a window is left out twice");
  left_out_.insert(place, a.iteration);
  ++result_.left_out;
}

void simulator::carry_out(const set_deadline& a) {
  const std::uint64_t epoch = epoch_;
  after(a.at - now_, [this, a, epoch] {
    if (epoch == epoch_) feed(deadline_passed{a.token});
  });
}

void simulator::carry_out(const await_final_checkpoint& a) {
  const bool committed = !(noise() && dice_.chance(10));
  if (committed) {
    checkpoints_.push_back(a.iteration.value());
    const worker& w = newest(rank_id{0});
    checkpoint_content_[a.iteration.value()] =
        w.report ? std::stoull(w.report->weights_digest) : w.content;
  }
  post(final_checkpoint_settled{a.iteration, committed, committed ? "" : "no space"});
}

void simulator::carry_out(const end_run& a) {
  end_ = a;
  result_.outcome = a.outcome;
  result_.error = a.error;
  require(a.outcome != run_outcome::failed || !a.error.empty(), "failed without saying why");
  if (a.last) check_mended(a);
  if (a.outcome != run_outcome::completed) return;
  require(a.last.has_value(), "completed without a word of the workers");
  require(a.last->iteration.value() == policy_.total_iterations, "completed before the end");
}

// Wherever there was somebody to compare with, the weights come out as if nothing had been damaged.
void simulator::check_mended(const end_run& a) {
  const bool right =
      a.last->weights_digest == std::to_string(expected_content(a.last->iteration.value()));
  require(right || past_mending_, "the weights are wrong at the end");
  if (any_damage_ && right) ++result_.mended;
}

}  // namespace ftrt::recovery::sim
