#include <algorithm>
#include <iostream>
#include <tests/actors/recovery/simulator.hpp>

namespace ftrt::recovery::sim {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::uint64_t dice::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

namespace {

policy draw_policy(dice& d) {
  policy p;
  p.world_size = static_cast<std::uint32_t>(1 + d.below(5));
  p.total_iterations = 3 + d.below(8);
  p.max_restarts = 60;
  p.window = std::chrono::seconds(100);
  p.max_failures_without_progress = 6;
  p.backoff_initial = milliseconds(5);
  p.backoff_max = milliseconds(40);
  p.backoff_seed = d.next();
  p.start_timeout = milliseconds(500);
  p.park_timeout = milliseconds(200);
  p.join_timeout = milliseconds(500);
  p.stop_timeout = milliseconds(5000);
  p.checkpoint_timeout = milliseconds(300);
  p.verdict_timeout = milliseconds(100);
  return p;
}

}  // namespace

simulator::simulator(std::uint64_t seed, bool trace)
    : dice_(seed), seed_(seed), trace_(trace), policy_(draw_policy(dice_)), machine_(policy_) {
  ranks_.resize(policy_.world_size);
  const std::uint64_t faults = dice_.below(7);
  const std::uint64_t spread = dice_.chance(80) ? 15 + 8 * policy_.world_size : 200;
  for (std::uint64_t i = 0; i < faults; ++i) fault_steps_.push_back(1 + dice_.below(spread));
}

void simulator::require(bool law, const std::string& text) const {
  if (law) return;
  throw law_broken{"seed " + std::to_string(seed_) + ": " + text + "; " +
                   describe(machine_.current())};
}

result simulator::run() {
  feed(begin{});
  while (!end_) {
    require(!queue_.empty(), "nothing will ever happen again");
    require(result_.steps < 20000, "no end in sight");
    const entry next = queue_.top();
    queue_.pop();
    now_ = std::max(now_, next.at);
    next.what();
  }
  if (result_.faults == 0) {
    require(result_.recoveries == 0 && result_.rollbacks == 0, "recovered from nothing");
    require(end_->outcome == run_outcome::completed, "failed without a fault: " + end_->error);
  }
  return result_;
}

void simulator::after(nanoseconds delay, std::function<void()> what) {
  queue_.push({now_ + delay, ++sequence_, std::move(what)});
}

// Mostly quick, now and then later than every deadline.
nanoseconds simulator::latency() {
  if (result_.faults > 0 && dice_.below(400) == 0) return milliseconds(800);
  return std::chrono::microseconds(50 + dice_.below(4000));
}

void simulator::feed(const input& in) {
  if (end_) return;
  ++result_.steps;
  const std::vector<action> actions = machine_.step(in, now_);
  if (trace_) {
    std::cerr << now_.count() / 1000 << "us " << describe(in) << " -> " << machine_.reason() << '\n'
              << "    " << describe(machine_.current()) << '\n';
    for (const action& a : actions) std::cerr << "    * " << describe(a) << '\n';
  }
  require(!machine_.reason().empty(), "no reason given");
  for (const action& a : actions) {
    require(!end_, "an action after the end");
    std::visit([this](const auto& each) { carry_out(each); }, a);
  }
  inject_faults();
}

void simulator::post(input in, std::optional<time_point> when) {
  const time_point at = when ? *when : now_ + latency();
  const std::uint64_t epoch = epoch_;
  const int copies = result_.faults > 0 && dice_.below(30) == 0 ? 2 : 1;
  for (int i = 0; i < copies; ++i)
    after(at - now_ + (i == 0 ? nanoseconds{0} : latency()), [this, in, epoch] {
      if (epoch == epoch_) feed(in);
    });
}

// One socket: what a worker says arrives in the order in which it was said.
void simulator::from_worker(worker& w, input in) {
  const time_point at = std::max(now_ + latency(), w.last_sent + nanoseconds(1));
  w.last_sent = at;
  post(std::move(in), at);
}

// ---- faults ------------------------------------------------------------------------------------

void simulator::inject_faults() {
  if (end_) return;
  const auto due = std::ranges::count(fault_steps_, result_.steps);
  for (int i = 0; i < due; ++i) {
    ++result_.faults;
    after(std::chrono::microseconds(dice_.below(2000)), [this] { one_fault(); });
  }
}

void simulator::one_fault() {
  if (end_) return;
  worker* w = nullptr;
  auto& incarnations = ranks_[dice_.below(ranks_.size())];
  if (!incarnations.empty()) w = &incarnations.back();
  const std::uint64_t kind = dice_.below(20);
  const bool up = w != nullptr && w->alive;
  if (kind < 8 && up) return die(*w, "killed by signal 9");
  if (kind < 10) {
    for (auto& all : ranks_)
      if (!all.empty() && all.back().alive && (kind == 8 || dice_.chance(50)))
        die(all.back(), "killed with others");
  } else if (kind < 12 && up) {
    w->deaf = true;  // the watch over progress finds out
    const incarnation_id who = w->incarnation;
    const rank_id rank = w->rank;
    after(milliseconds(300), [this, rank, who] {
      if (newest(rank).incarnation == who) die(newest(rank), "hung");
    });
  } else if (kind < 13 && up && w->has_state) {
    w->damaged = any_damage_ = true;
  } else if (kind < 15) {
    post(stop_requested{"somebody asked"});
    stop_asked_ = true;
  } else if (kind < 17) {
    replace_supervisor();
  } else if (kind < 18 && up) {
    w->threw = true;
    if (w->phase == protocol::worker_phase::training && !w->failure) fail_program(*w);
  } else if (kind < 19 && up) {
    post(peers_reported_lost{w->generation, {w->rank, rank_id{77}}});
  } else if (up) {
    say_hello(*w);  // its trainer was replaced
  }
}

void simulator::die(worker& w, const std::string& cause) {
  if (!w.alive) return;
  w.alive = false;
  ++result_.kills;
  report_loss(w, cause);
}

void simulator::report_loss(const worker& w, const std::string& cause) {
  const bool applying = w.decided && w.prepared > w.committed && dice_.chance(50);
  post(worker_lost{w.rank, w.incarnation, cause, "", w.committed, applying, now_});
}

// What the host table keeps: who was forked. Orders and timers of the old supervisor die with it.
void simulator::replace_supervisor() {
  ++epoch_;
  machine_ = machine(policy_);
  take_over over;
  over.branch = branch_;
  over.branch_since = branch_since_;
  over.last_generation = generation_id{result_.generations};
  over.last_committed = iteration_id{history_};
  for (auto& all : ranks_) {
    while (!all.empty() && !all.back().forked) all.pop_back();
    over.incarnations.push_back(all.empty() ? incarnation_id{} : all.back().incarnation);
  }
  std::vector<worker> dead;
  for (const auto& all : ranks_)
    if (!all.empty() && !all.back().alive) dead.push_back(all.back());
  feed(over);
  for (const worker& w : dead) report_loss(w, "found dead");
  if (stop_asked_) post(stop_requested{"asked again"});
}

// ---- control -----------------------------------------------------------------------------------

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
    if (result_.faults > 0 && dice_.chance(3))
      return post(worker_start_failed{a.rank, a.incarnation, "fork failed"});
    born.alive = true;
    later(born, [this](worker& x) { say_hello(x); });
  });
}

void simulator::carry_out(const kill_worker& a) {
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

void simulator::carry_out(const find_checkpoint& a) {
  if (a.quarantine_iteration) std::erase(checkpoints_, a.quarantine_iteration->value());
  checkpoint_found found;
  if (!checkpoints_.empty())
    found.newest = {iteration_id{checkpoints_.back()}, "/c/" + std::to_string(checkpoints_.back())};
  if (result_.faults > 0 && dice_.chance(2)) return;  // the answer is lost
  post(found);
}

void simulator::carry_out(const record_generation& a) {
  require(a.generation.value() > result_.generations, "a generation is used twice");
  result_.generations = a.generation.value();
  if (a.rollback_to) {
    require(a.branch.value() == branch_.value() + 1, "a rollback opens no new branch");
    require(a.rollback_to == a.from, "rolls back elsewhere");
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
  history_ = a.rollback_to ? a.from.value() : std::max(history_, a.from.value());
  std::erase_if(checkpoints_, [&](std::uint64_t k) { return k > history_; });
}

void simulator::carry_out(const join_generation& a) {
  require(a.by_rank.size() == ranks_.size(), "a rank is left out");
  for (const protocol::join& j : a.by_rank) {
    const worker& w = newest(j.rank);
    if (w.alive && w.has_state && !any_damage_) {
      require(
          j.role == protocol::state_role::keep || j.role == protocol::state_role::apply_prepared,
          "a survivor receives state");
      require(j.iteration >= w.committed, "a committed iteration is given up while a copy lives");
    }
    tell(j.rank.value(), w.incarnation, true, [this, j](worker& x) { enter(x, j); });
  }
}

void simulator::carry_out(const start_training& a) {
  for (auto& all : ranks_)
    tell(all.back().rank.value(), all.back().incarnation, false, [this, a](worker& w) {
      if (w.phase != protocol::worker_phase::joined || w.generation != a.generation) return;
      w.phase = protocol::worker_phase::training;
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
  require(a.resumed_ms >= a.detected_ms && a.detected_ms >= 0, "times run backwards");
}

void simulator::carry_out(const set_deadline& a) {
  const std::uint64_t epoch = epoch_;
  after(a.at - now_, [this, a, epoch] {
    if (epoch == epoch_) feed(deadline_passed{a.token});
  });
}

void simulator::carry_out(const await_final_checkpoint& a) {
  const bool committed = !(result_.faults > 0 && dice_.chance(10));
  if (committed) checkpoints_.push_back(a.iteration.value());
  post(final_checkpoint_settled{a.iteration, committed, committed ? "" : "no space"});
}

void simulator::carry_out(const end_run& a) {
  end_ = a;
  result_.outcome = a.outcome;
  result_.error = a.error;
  require(a.outcome != run_outcome::failed || !a.error.empty(), "failed without saying why");
  if (a.outcome != run_outcome::completed) return;
  require(a.last.has_value(), "completed without a word of the workers");
  require(a.last->iteration.value() == policy_.total_iterations, "completed before the end");
}

}  // namespace ftrt::recovery::sim
