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

policy draw_policy(dice& d, const schedule& plan) {
  policy p;
  p.world_size = static_cast<std::uint32_t>(d.below(20) == 0 ? 1 : 2 + d.below(4));
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
  p.on_non_finite = non_finite_policy::rollback;
  p.replace_stragglers = d.chance(75);
  p.poison_limit = 3;
  p.skip_poisoned = d.chance(75);
  p.wait_for_replacement = d.chance(50);
  if (plan.ranks == 0) return p;
  p.world_size = plan.ranks;
  p.total_iterations = 1'000'000;  // until it is stopped
  p.max_restarts = p.max_failures_without_progress = std::uint64_t{1} << 40;
  return p;
}

}  // namespace

simulator::simulator(schedule plan)
    : plan_(std::move(plan)),
      dice_(plan_.seed),
      policy_(draw_policy(dice_, plan_)),
      machine_(policy_),
      digests_(policy_.world_size) {
  ranks_.resize(policy_.world_size);
  draw_faults();
}

void simulator::draw_faults() {
  if (plan_.ranks > 0) return draw_many_faults();
  const std::uint64_t spread = dice_.chance(80) ? 15 + 8 * policy_.world_size : 200;
  drawn_faults_ = dice_.below(7);
  for (std::uint64_t number = 0; number < drawn_faults_; ++number) {
    const fault drawn{1 + dice_.below(spread), number};
    if (!plan_.kept || std::ranges::count(*plan_.kept, number) > 0) faults_.push_back(drawn);
  }
  std::ranges::sort(faults_, std::ranges::greater{}, &fault::step);
}

// By time, so close that several fall into the recovery from another; the run is stopped after
// them.
void simulator::draw_many_faults() {
  drawn_faults_ = plan_.faults;
  nanoseconds at = milliseconds(100);
  for (std::uint64_t number = 0; number < drawn_faults_; ++number) {
    at += std::chrono::microseconds(dice_.below(40'000));
    after(at, [this, number] {
      ++result_.faults;
      one_fault(number);
    });
  }
  after(at + milliseconds(200), [this] {
    stop_asked_ = true;
    post(stop_requested{"all faults are done"});
  });
}

void simulator::require(bool law, const std::string& text) const {
  if (law) return;
  throw law_broken{"seed " + std::to_string(plan_.seed) + ": " + text + "; " +
                   describe(machine_.current())};
}

result simulator::run() {
  result_.ranks = policy_.world_size;
  feed(begin{});
  while (!end_) {
    require(!queue_.empty(), "nothing will ever happen again");
    require(plan_.ranks > 0 || result_.steps < 20000, "no end in sight");
    const entry next = std::move(const_cast<entry&>(queue_.top()));  // it is popped at once
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
  if (noise() && dice_.below(400) == 0) return milliseconds(800);
  return std::chrono::microseconds(50 + dice_.below(4000));
}

// Before it hears of what may be the consequence, control reads what the rings say.
void simulator::read_digests() {
  const state& now = machine_.current();
  if (now.at != phase::training && now.at != phase::taking_over) return;
  const generation_id generation = now.generation;
  digests_.begin(generation);
  for (; read_ < written_.size(); ++read_) {
    const digest_written& each = written_[read_];
    digests_.add(each.rank, each.generation, each.iteration, each.digest);
  }
  const auto found = digests_.judge();
  if (found.agreed) feed(states_agreed{generation, found.agreed->iteration});
  if (found.diverged)
    feed(state_diverged{generation, found.diverged->iteration, found.diverged->ranks});
}

void simulator::feed(const input& in) {
  if (end_) return;
  const bool reads =
      std::holds_alternative<progressed>(in) || std::holds_alternative<worker_lost>(in) ||
      std::holds_alternative<worker_finished>(in) || std::holds_alternative<worker_not_finite>(in);
  if (reads) read_digests();
  if (end_) return;
  ++result_.steps;
  // Before the step, which may end the process.
  if (plan_.trace) std::cerr << now_.count() / 1000 << "us " << describe(in) << std::flush;
  const std::vector<action> actions = machine_.step(in, now_);
  if (plan_.trace) {
    std::cerr << " -> " << machine_.reason() << '\n'
              << "    " << describe(machine_.current()) << '\n';
    for (const action& a : actions) std::cerr << "    * " << describe(a) << '\n';
  }
  require(!machine_.reason().empty(), "no reason given");
  gone_back_ = gone_back_ || machine_.current().distrust;
  for (const action& a : actions) {
    require(!end_, "an action after the end");
    std::visit([this](const auto& each) { carry_out(each); }, a);
  }
  inject_faults();
}

void simulator::post(input in, std::optional<time_point> when) {
  const time_point at = when ? *when : now_ + latency();
  const std::uint64_t epoch = epoch_;
  const int copies = noise() && dice_.below(30) == 0 ? 2 : 1;
  for (int i = 0; i < copies; ++i)
    after(at - now_ + (i == 0 ? nanoseconds{0} : latency()), [this, in, epoch] {
      if (epoch == epoch_) feed(in);
    });
}

// One socket: what a worker says arrives in the order in which it was said.
void simulator::from_worker(worker& w, input in) {
  const time_point at = std::max(now_ + latency(), w.last_sent + nanoseconds(1));
  w.last_sent = at;
  const std::uint64_t epoch = epoch_;
  const int copies = noise() && dice_.below(30) == 0 ? 2 : 1;
  for (int i = 0; i < copies; ++i)
    after(at - now_ + (i == 0 ? nanoseconds{0} : latency()),
          [this, in, epoch, rank = w.rank, who = w.incarnation, link = w.link] {
            const worker& x = newest(rank);
            const bool lost = x.incarnation == who && x.link != link;
            if (epoch == epoch_ && !lost) feed(in);
          });
}

// Whoever is the supervisor when it arrives.
void simulator::post_to_anyone(input in) {
  after(latency(), [this, in = std::move(in)] { feed(in); });
}

// ---- faults ------------------------------------------------------------------------------------

void simulator::inject_faults() {
  while (!end_ && !faults_.empty() && faults_.back().step <= result_.steps) {
    const std::uint64_t number = faults_.back().number;
    faults_.pop_back();
    ++result_.faults;
    after(std::chrono::microseconds(dice_.below(2000)), [this, number] { one_fault(number); });
  }
}

// What it is depends on the seed and its number alone, so that dropping others leaves it alone.
void simulator::one_fault(std::uint64_t number) {
  if (end_) return;
  dice d(plan_.seed * 1000003 + number);
  worker* w = nullptr;
  auto& incarnations = ranks_[d.below(ranks_.size())];
  if (!incarnations.empty()) w = &incarnations.back();
  const std::uint64_t kind = d.below(32);
  const bool up = w != nullptr && w->alive;
  const bool large = plan_.ranks > 0;
  if (kind < 8 && up) return die(*w, "killed by signal 9");
  if (kind < 10) return kill_many(kind == 8);
  if (kind < 12 && up) return hang(*w);
  if (kind < 13 && up && w->has_state && !large) {
    damage(*w, d.next() | 1);
  } else if (kind >= 13 && kind < 15 && !large) {
    post(stop_requested{"somebody asked"});
    stop_asked_ = true;
  } else if (kind >= 15 && kind < 17) {
    replace_supervisor();
  } else if (kind == 17 && up) {
    w->threw = true;
    if (w->phase == protocol::worker_phase::training && !w->failure) fail_program(*w);
  } else if (kind == 18 && up) {
    post(peers_reported_lost{w->generation, {w->rank, rank_id{77777}}});
  } else if (kind == 19) {
    post(peers_reported_lost{generation_id{result_.generations}, {}});
  } else if (kind < 23 && up) {
    replace_trainer(*w);
  } else if (kind >= 30) {
    if (up) slow_down(*w, d.chance(80), d.chance(80), 8);
  } else if (kind >= 28) {
    if (large) return;
    const auto of_rank = static_cast<std::uint32_t>(d.below(ranks_.size() + 1));
    poison(d.below(3), of_rank < ranks_.size() ? std::optional(of_rank) : std::nullopt);
  } else if (kind >= 26 && up) {
    w->nan = true;
  } else if (up && !w->snapshots.empty()) {
    w->snapshots.back().torn = true;
    die(*w, "killed while it wrote a snapshot");
  }
}

void simulator::kill_many(bool all) {
  for (auto& incarnations : ranks_)
    if (!incarnations.empty() && (all || dice_.chance(50)))
      die(incarnations.back(), "killed with others");
}

// A bit flips in its state. It can be mended while another rank knows better: not where one is
// about to get the damaged state, as all that it has, or dies before they were compared.
void simulator::damage(worker& w, std::uint64_t by) {
  w.content ^= by;
  any_damage_ = true;
  ++result_.damages;
  const auto knows = [](const auto& all) { return all.back().alive && all.back().has_state; };
  const auto is_believed = [](const member& m) { return m.has_state; };
  if (ranks_.size() == 1 || !std::ranges::all_of(ranks_, knows) ||
      !std::ranges::all_of(machine_.current().ranks, is_believed))
    past_mending_ = true;
}

// A window that nobody has come to yet turns out to kill, for good.
void simulator::poison(std::uint64_t ahead, std::optional<std::uint32_t> of_rank) {
  const std::uint64_t k = std::max<std::uint64_t>(furthest_ + 1, expected_.size()) + ahead;
  if (k <= policy_.total_iterations) poison_.emplace(k, of_rank);
}

// The watch over progress finds out.
void simulator::hang(worker& w) {
  count(w, -1);
  w.deaf = true;
  count(w, 1);
  after(milliseconds(300), [this, rank = w.rank, who = w.incarnation] {
    if (newest(rank).incarnation == who) die(newest(rank), "hung");
  });
}

// The watch over compute times says so, and again while that worker lives, for a while.
void simulator::slow_down(worker& w, bool all_iterate, bool has_successor, int times) {
  post(straggler_found{w.generation, w.rank, w.incarnation, "slow", all_iterate, has_successor});
  if (times == 1) return;
  after(milliseconds(2 + dice_.below(30)), [this, rank = w.rank, who = w.incarnation, times] {
    worker& x = newest(rank);
    if (x.incarnation == who && x.alive) slow_down(x, true, true, times - 1);
  });
}

// What is under way in either direction is lost; then it says who it is to the next one.
void simulator::replace_trainer(worker& w) {
  ++w.link;
  tell(w.rank.value(), w.incarnation, true, [this](worker& x) { say_hello(x); });
}

void simulator::die(worker& w, const std::string& cause) {
  if (!w.alive) return;
  const auto wrong = [this](const auto& all) { return !all.empty() && is_wrong(all.back()); };
  if (any_damage_ && !machine_.current().distrust && std::ranges::any_of(ranks_, wrong))
    past_mending_ = true;
  count(w, -1);
  w.alive = false;
  ++result_.kills;
  report_loss(w, cause);
}

void simulator::report_loss(const worker& w, const std::string& cause) {
  const bool applying = w.decided && w.prepared > w.committed && dice_.chance(50);
  worker_lost lost{w.rank, w.incarnation, cause, "", w.committed, applying, now_};
  lost.in_window = w.phase == protocol::worker_phase::training;
  lost.injected = !w.of_poison;  // chance does not strike three times in a row in one place
  post(lost);
}

// What the host table keeps: who was forked. Orders and timers of the old supervisor die with it.
void simulator::replace_supervisor() {
  ++epoch_;
  take_over over;
  over.branch = branch_;
  over.branch_since = branch_since_;
  over.last_generation = generation_id{result_.generations};
  over.last_committed = iteration_id{history_};
  over.agreed = machine_.current().agreed;
  over.not_beyond = machine_.current().not_beyond;
  over.left_out = left_out_;
  over.counts = counts_of(machine_.current());
  machine_ = machine(policy_);
  slow_killed_.reset();
  for (auto& all : ranks_) {
    while (!all.empty() && !all.back().forked) all.pop_back();
    over.incarnations.push_back(all.empty() ? incarnation_id{} : all.back().incarnation);
  }
  std::vector<worker> dead;
  for (const auto& all : ranks_)
    if (!all.empty() && !all.back().alive) dead.push_back(all.back());
  read_ = 0;
  digests_ = digest_watch{policy_.world_size};
  feed(over);
  read_digests();
  for (const worker& w : dead) report_loss(w, "found dead");
  if (stop_asked_) post(stop_requested{"asked again"});
}

}  // namespace ftrt::recovery::sim
