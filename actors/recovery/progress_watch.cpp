#include <actors/recovery/progress_watch.hpp>

#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>
#include <limits>
#include <tuple>

namespace ftrt::recovery {
namespace {

using storage::train_phase;

// The first iteration of a generation touches memory for the first time.
constexpr int first_iteration_factor = 2;
// Where one rank is late, others that are as silent for this share of their limits are taken to
// have been hit by the same.
constexpr double accomplice_share = 0.75;
// What holds all ranks up at once is most likely outside them, and to give all of them up costs the
// state that none but they have: that takes longer.
constexpr double everybody_factor = 4;
// A group that waits for nobody gets longer than one rank: making the communicator anew is a guess.
constexpr int stuck_factor = 2;
// So many looks without progress, and the kernel is asked whether a rank could have made any.
constexpr int doubtful_intervals = 2;
// To save is to copy memory: slower than this it is on no machine.
constexpr double save_ns_per_byte = 10;

// Nothing is expected from a rank that has done all that was asked of it, and has said so: its page
// alone may be that of one that was stopped before it could.
bool is_done(const member& m) {
  return m.stands == standing::joined || m.stands == standing::finished;
}

bool in_collective(const sighting& s) {
  return s.page.phase == train_phase::all_reduce || s.page.phase == train_phase::decision;
}

// The machine waits for deaths, parks or hellos outside these, each with its own deadline; and a
// rank whose program failed or whose numbers are none has stopped by itself, which its peers get
// time to confirm.
bool is_watched(const state& group, std::span<const sighting> seen) {
  if (group.at != phase::joining && group.at != phase::training) return false;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    const member& m = group.ranks[r];
    if (!is_member(m) || m.program_error || m.gave_up || !seen[r].alive) return false;
  }
  return true;
}

std::chrono::nanoseconds scaled(std::chrono::nanoseconds time, double factor) {
  constexpr double most = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 16);
  const double wanted = factor * static_cast<double>(time.count());
  return std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(wanted, most))};
}

std::int64_t to_ms(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string where(const sighting& s, const state& group) {
  const auto& page = s.page;
  if (page.generation != group.generation)
    return cat("before it joined generation ", group.generation);
  if (page.phase == train_phase::evaluating || page.phase == train_phase::snapshot)
    return cat("in ", to_string(page.phase), " after iteration ", page.committed);
  if (page.phase < train_phase::compute) return cat("in phase ", to_string(page.phase));
  return cat("in ", to_string(page.phase), " of iteration ", page.iteration);
}

}  // namespace

findings progress_watch::look(time_point now, const state& group, std::span<const sighting> seen) {
  pass_time(now);
  if (!limits_.enabled || seen.size() != group.ranks.size() || !is_watched(group, seen)) {
    period_ = {};
    return {};
  }
  const period current{group.at, group.generation};
  if (current != period_) begin_period(current, seen);
  note(seen);
  learn(group, seen);

  findings found;
  tell_starved(found, group, seen);
  for (const rank_id rank : blame(group, seen)) accuse(found, rank, group, seen, "");
  if (found.culprits.empty() && all_wait(group, seen)) escalate(found, group, seen);
  // Whoever is not gone by the next time gets as long again.
  if (!found.culprits.empty() || found.stuck) period_ = {};
  return found;
}

std::chrono::nanoseconds progress_watch::step_limit() const {
  const auto step = steps_.high();
  if (!step) return limits_.first;
  return std::max(limits_.floor, scaled(*step, limits_.factor)) *
         (committed_here_ ? 1 : first_iteration_factor);
}

std::chrono::nanoseconds progress_watch::save_limit() const {
  const double copying = save_ns_per_byte * static_cast<double>(limits_.state_bytes);
  return std::min(limits_.save, limits_.floor + scaled(std::chrono::nanoseconds{1}, copying));
}

std::chrono::nanoseconds progress_watch::evaluation_limit() const {
  if (!has_evaluated_) return limits_.evaluate;
  return std::min(limits_.evaluate,
                  std::max(limits_.floor, scaled(evaluation_gap_, limits_.factor)));
}

// Between two looks no more time passes than would if control were on time: what it missed, it
// cannot hold against anybody.
void progress_watch::pass_time(time_point now) {
  if (last_look_) watched_ += std::clamp(now - *last_look_, time_point{0}, 2 * limits_.interval);
  last_look_ = now;
}

void progress_watch::begin_period(const period& next, std::span<const sighting> seen) {
  if (next.generation != period_.generation) committed_here_ = false;
  period_ = next;
  committed_.reset();
  tracks_.assign(seen.size(), {});
  for (std::size_t r = 0; r < seen.size(); ++r)
    tracks_[r] = {
        seen[r].page.progress_ns, seen[r].page.waiting_ns, seen[r].page.phase, here(), here(), {}};
}

void progress_watch::note(std::span<const sighting> seen) {
  for (std::size_t r = 0; r < seen.size(); ++r) {
    track& t = tracks_[r];
    const auto& page = seen[r].page;
    learn_of_evaluation(t, seen[r]);
    if (page.progress_ns != t.progress_ns) {
      t.progressed = t.gave_sign = here();
      t.tell_at = starved_for_long;
    }
    if (page.waiting_ns != t.waiting_ns) t.gave_sign = here();
    if (seen[r].processor) {
      t.starved.note(*last_look_, seen[r].processor);
      for (moment* m : {&t.progressed, &t.gave_sign})
        if (!m->starved) m->starved = t.starved.total();
    }
    t.progress_ns = page.progress_ns;
    t.waiting_ns = page.waiting_ns;
    t.at = page.phase;
  }
}

bool progress_watch::wants_processor_use(rank_id rank, const storage::progress_view& page) const {
  if (rank.value() >= tracks_.size()) return false;
  const track& t = tracks_[rank.value()];
  return t.progress_ns == page.progress_ns &&
         watched_ - t.progressed.watched >= doubtful_intervals * limits_.interval;
}

std::chrono::nanoseconds progress_watch::silence(const track& t, const moment& since) const {
  auto silent = watched_ - since.watched;
  if (since.starved) {
    const auto starved = *t.starved.total() - *since.starved;
    silent = std::min(silent, *last_look_ - since.passed - starved);
  }
  return std::max(silent, std::chrono::nanoseconds{0});
}

// Nobody can give it a processor, but somebody may want to know why the run stands still.
void progress_watch::tell_starved(findings& found, const state& group,
                                  std::span<const sighting> seen) {
  for (std::uint32_t r = 0; r < seen.size(); ++r) {
    track& t = tracks_[r];
    const auto starved = watched_ - t.progressed.watched - silence(t, t.progressed);
    if (starved < t.tell_at) continue;
    t.tell_at *= 2;
    found.starved.push_back({rank_id{r}, cat("has waited for a processor for ", to_ms(starved),
                                             " ms ", where(seen[r], group))});
  }
}

// How long evaluations go without progress. Only what was followed by progress is known not to have
// been a hang.
void progress_watch::learn_of_evaluation(const track& t, const sighting& s) {
  if (t.at != train_phase::evaluating || s.page.progress_ns == t.progress_ns) return;
  evaluation_gap_ = std::max(evaluation_gap_, watched_ - t.progressed.watched);
  if (s.page.phase > train_phase::joining && s.page.phase != train_phase::evaluating)
    has_evaluated_ = true;
}

// How long iterations take, from the commits that are seen to pass.
void progress_watch::learn(const state& group, std::span<const sighting> seen) {
  if (group.at != phase::training) return;
  iteration_id newest;
  for (const sighting& s : seen)
    if (s.page.generation == group.generation) newest = std::max(newest, s.page.committed);
  if (committed_ && newest > *committed_) {
    steps_.add(newest.value() - committed_->value(), watched_ - committed_at_);
    committed_here_ = true;
  }
  if (committed_ && newest <= *committed_) return;
  committed_ = newest;
  committed_at_ = watched_;
}

bool progress_watch::waits_are_told(std::span<const sighting> seen) const {
  return std::ranges::any_of(seen, [](const sighting& s) { return s.page.waiting_ns != 0; });
}

std::chrono::nanoseconds progress_watch::limit_of(const member& m, const sighting& s) const {
  if (period_.at == phase::joining)
    return m.role == protocol::state_role::load_checkpoint ? limits_.load : limits_.join;
  if (s.page.phase == train_phase::evaluating) return evaluation_limit();
  if (s.page.phase == train_phase::snapshot) return save_limit();
  if (s.page.phase == train_phase::finished) return limits_.save;  // it digests its weights
  return step_limit();
}

std::vector<rank_id> progress_watch::silent_for(double share, const state& group,
                                                std::span<const sighting> seen) const {
  std::vector<rank_id> silent;
  for (std::uint32_t r = 0; r < seen.size(); ++r) {
    if (is_done(group.ranks[r])) continue;
    const auto limit = static_cast<double>(limit_of(group.ranks[r], seen[r]).count());
    const auto silent_ns = static_cast<double>(silence(tracks_[r], tracks_[r].gave_sign).count());
    if (silent_ns > share * limit) silent.emplace_back(r);
  }
  return silent;
}

// Those that give no sign beyond their limit; and with them those that have been silent for nearly
// as long, since what stops one may have stopped several.
std::vector<rank_id> progress_watch::blame(const state& group,
                                           std::span<const sighting> seen) const {
  if (silent_for(1, group, seen).empty()) return {};
  auto named = silent_for(accomplice_share, group, seen);
  if (!waits_are_told(seen)) named = behind(named, group, seen);
  std::size_t at_work = 0;
  for (std::size_t r = 0; r < seen.size(); ++r)
    if (!is_done(group.ranks[r])) ++at_work;
  const bool everybody = named.size() > 1 && named.size() == at_work;
  if (everybody && silent_for(everybody_factor, group, seen).size() < at_work) return {};
  return named;
}

// Of those that are silent where nobody says that it waits: whoever is not in a collective, else
// whoever has come less far than another. Nobody where all have come equally far.
std::vector<rank_id> progress_watch::behind(const std::vector<rank_id>& silent, const state& group,
                                            std::span<const sighting> seen) const {
  std::vector<rank_id> found;
  for (const rank_id rank : silent)
    if (!in_collective(seen[rank.value()])) found.push_back(rank);
  if (!found.empty() || group.at != phase::training) return found;
  const auto reached = [&](std::size_t r) {
    return std::tuple{seen[r].page.iteration, seen[r].page.collective_sequence};
  };
  auto furthest = reached(0);
  for (std::size_t r = 1; r < seen.size(); ++r) furthest = std::max(furthest, reached(r));
  for (const rank_id rank : silent)
    if (reached(rank.value()) < furthest) found.push_back(rank);
  return found;
}

// Everybody lives and waits (or is done), and nobody has got on for longer than anyone may take.
bool progress_watch::all_wait(const state& group, std::span<const sighting> seen) const {
  if (waits_are_told(seen) && !silent_for(1, group, seen).empty()) return false;
  bool anybody = false;
  for (std::uint32_t r = 0; r < seen.size(); ++r) {
    if (is_done(group.ranks[r])) continue;
    anybody = true;
    if (silence(tracks_[r], tracks_[r].progressed) <=
        stuck_factor * limit_of(group.ranks[r], seen[r]))
      return false;
  }
  return anybody;
}

// A hang without a culprit: the communicator is made anew, once. If that does not help, whoever has
// been without progress for longest is taken for the cause, and then all are.
void progress_watch::escalate(findings& found, const state& group, std::span<const sighting> seen) {
  const iteration_id here = std::max(group.highest, committed_.value_or(iteration_id{}));
  stuck_ = here == stuck_at_ ? stuck_ + 1 : 1;
  stuck_at_ = here;
  if (stuck_ == 1) {
    found.stuck =
        cat("all ranks wait for each other after iteration ", here, " and none is missing");
    return;
  }
  const std::string how = cat("; all ranks waited, for the ", stuck_, ". time at iteration ", here);
  std::uint32_t oldest = 0;
  for (std::uint32_t r = 1; r < seen.size(); ++r)
    if (tracks_[r].progressed.watched < tracks_[oldest].progressed.watched) oldest = r;
  for (std::uint32_t r = 0; r < seen.size(); ++r)
    if (stuck_ > 2 || r == oldest) accuse(found, rank_id{r}, group, seen, how);
}

void progress_watch::accuse(findings& found, rank_id rank, const state& group,
                            std::span<const sighting> seen, const std::string& how) const {
  const sighting& s = seen[rank.value()];
  const track& t = tracks_[rank.value()];
  const auto limit = limit_of(group.ranks[rank.value()], s);
  const auto lasted = watched_ - t.progressed.watched;
  const auto starved = lasted - silence(t, t.progressed);
  const std::string excused =
      to_ms(starved) > 0 ? cat(", ", to_ms(starved), " ms of them without a processor") : "";
  found.culprits.push_back({rank, cat("made no progress for ", to_ms(lasted), " ms", excused, " ",
                                      where(s, group), " (limit ", to_ms(limit), " ms)", how)});
}

}  // namespace ftrt::recovery
