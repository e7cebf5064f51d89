#pragma once

#include <actors/recovery/progress_watch.hpp>
#include <functional>
#include <string>
#include <vector>

namespace ftrt::recovery {

// A group of ranks as control sees it, played by hand in virtual time: what each rank does between
// two looks is a function that the test sets, and the watch is asked at each.
//
//   watched_group g(2);
//   g.warm_up();                         // trains for a second, 5 ms a step
//   g.does(1, stopped);
//   EXPECT_EQ(g.until_found(seconds(2)).culprits, ...);
class watched_group {
 public:
  using time = std::chrono::nanoseconds;
  using behaviour = std::function<void(storage::progress_view&, time now)>;
  using schedule = std::function<void(processor_use&, time passed)>;

  explicit watched_group(std::uint32_t ranks, watch_limits limits = {})
      : watch(limits), interval_(limits.interval) {
    group.at = phase::training;
    group.generation = generation_id{3};
    group.ranks.resize(ranks);
    seen.resize(ranks);
    behaviours_.resize(ranks);
    schedules_.resize(ranks);
    accounts_.resize(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      group.ranks[r].stands = standing::training;
      seen[r].alive = true;
      seen[r].page.generation = group.generation;
      does(r, trains(std::chrono::milliseconds{5}));
    }
  }

  void does(std::uint32_t rank, behaviour what) { behaviours_[rank] = std::move(what); }
  void all_do(const behaviour& what) {
    for (auto& b : behaviours_) b = what;
  }

  // What the kernel gives it from now on; nothing is known of one that was not said to have any.
  void gets(std::uint32_t rank, schedule what) { schedules_[rank] = std::move(what); }

  // One tick of control, `late` after it was due.
  findings tick(time late = {}) {
    now += interval_ + late;
    for (std::size_t r = 0; r < seen.size(); ++r) {
      behaviours_[r](seen[r].page, now);
      seen[r].processor.reset();
      if (!schedules_[r]) continue;
      schedules_[r](accounts_[r], interval_ + late);
      if (watch.wants_processor_use(rank_id{static_cast<std::uint32_t>(r)}, seen[r].page))
        seen[r].processor = accounts_[r];
    }
    return watch.look(now, group, seen);
  }
  // Ticks until something is found; `passed` says after how long.
  findings until_found(time most) {
    const auto begin = now;
    while (now - begin < most) {
      auto found = tick();
      passed = now - begin;
      if (!found.culprits.empty() || found.stuck) return found;
    }
    return {};
  }
  void warm_up() {
    for (int i = 0; i < 50; ++i) static_cast<void>(tick());
  }

  // ---- what a rank does ---------------------------------------------------------------------

  // Commits an iteration in each `step`, and is in its compute phase whenever it is looked at.
  static behaviour trains(time step) {
    return [step](storage::progress_view& page, time now) {
      page.phase = storage::train_phase::compute;
      const auto done = (now.count() - page.progress_ns) / step.count();
      if (done <= 0) return;
      page.committed = iteration_id{page.committed.value() + static_cast<std::uint64_t>(done)};
      page.iteration = page.committed.next();
      page.collective_sequence = 3 * page.committed.value();
      page.progress_ns += done * step.count();
    };
  }
  // Nothing any more, in this phase.
  static behaviour hangs_in(storage::train_phase phase) {
    return [phase](storage::progress_view& page, time) { page.phase = phase; };
  }
  // Waits for a peer and says so.
  static behaviour waits_in(storage::train_phase phase) {
    return [phase](storage::progress_view& page, time now) {
      page.phase = phase;
      page.waiting_ns = now.count();
    };
  }
  // Works slowly in a phase: some progress in each `gap`.
  static behaviour works_in(storage::train_phase phase, time gap) {
    return [phase, gap](storage::progress_view& page, time now) {
      page.phase = phase;
      if (now.count() - page.progress_ns >= gap.count()) page.progress_ns = now.count();
    };
  }

  // ---- what a rank gets ---------------------------------------------------------------------

  // A processor for this share of the time that it wants one, in turns shorter than a look.
  static schedule processor(double share) {
    return [share](processor_use& use, time passed) {
      const time ran{static_cast<std::int64_t>(share * static_cast<double>(passed.count()))};
      use.ran += ran;
      use.waited += passed - ran;
      use.runnable = true;
    };
  }
  // None at all, and the account does not move until it gets one.
  static schedule no_processor() {
    return [](processor_use& use, time) { use.runnable = true; };
  }
  // It does not want any.
  static schedule sleep() {
    return [](processor_use& use, time) { use.runnable = false; };
  }

  progress_watch watch;
  state group;
  std::vector<sighting> seen;
  time now{std::chrono::hours{1}};
  time passed{};

 private:
  time interval_;
  std::vector<behaviour> behaviours_;
  std::vector<schedule> schedules_;
  std::vector<processor_use> accounts_;
};

// "1,2": who was named, in order.
inline std::string named(const findings& found) {
  std::string text;
  for (const auto& culprit : found.culprits)
    text += (text.empty() ? "" : ",") + std::to_string(culprit.rank.value());
  return text;
}

}  // namespace ftrt::recovery
