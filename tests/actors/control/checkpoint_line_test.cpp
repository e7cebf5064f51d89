#include <gtest/gtest.h>

#include <actors/control/checkpoint_line.hpp>
#include <deque>
#include <map>
#include <sstream>
#include <tests/actors/control/snapshot_memory.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;
using namespace testing;

snapshot_set numbered(std::uint64_t iteration, std::uint64_t generation = 1,
                      std::uint32_t branch = 1) {
  return {generation_id{generation}, branch_id{branch}, iteration_id{iteration}, {}};
}

// ---- the rule -----------------------------------------------------------------------------------

// What the slots say when a set of this iteration is to be held; ok: it can be.
enum class slots { ok, busy, overwritten, corrupt };

struct arrival {
  std::optional<snapshot_set> set;  // none: a job ended
  std::map<std::uint64_t, slots> now;
  std::string made;  // "held 30, dropped 20 (aborted)"
};

struct rule {
  const char* name;
  std::vector<arrival> arrivals;
};

std::string describe(const checkpoint_line::decision& made) {
  std::ostringstream out;
  if (made.held) out << "held " << made.held->set.iteration.value() << ' ';
  for (const auto& each : made.dropped) {
    out << "dropped " << each.set.iteration.value() << " (" << to_string(each.why.code) << ") ";
  }
  return out.str();
}

const rule rules[] = {
    {"one that can be held is held at once", {{numbered(10), {}, "held 10 "}}},
    {"two are no reason for a third not to be, if the slots allow it",
     {{numbered(10), {}, "held 10 "},
      {numbered(20), {}, "held 20 "},
      {numbered(30), {}, "held 30 "}}},
    {"one that finds no slot waits until a job ends",
     {{numbered(10), {{10, slots::busy}}, ""},
      {{}, {{10, slots::busy}}, ""},
      {{}, {}, "held 10 "},
      {{}, {}, ""}}},
    {"of two that wait the newer one wins",
     {{numbered(10), {{10, slots::busy}}, ""},
      {numbered(20), {{20, slots::busy}}, "dropped 10 (aborted) "},
      {{}, {}, "held 20 "}}},
    {"the newer one wins also where it need not wait any more",
     {{numbered(10), {{10, slots::busy}}, ""},
      {numbered(20), {}, "held 20 dropped 10 (aborted) "},
      {{}, {}, ""}}},
    {"an older one that comes late is dropped for the one that waits",
     {{numbered(20), {{20, slots::busy}}, ""},
      {numbered(10), {{20, slots::busy}}, "dropped 10 (aborted) "},
      {{}, {}, "held 20 "}}},
    {"the later generation is the newer one, though its iteration is lower",
     {{numbered(50, 1), {{50, slots::busy}}, ""},
      {numbered(20, 2, 2), {{20, slots::busy}}, "dropped 50 (aborted) "},
      {{}, {}, "held 20 "}}},
    {"the same state in another slot takes its place, and nothing is dropped",
     {{numbered(10, 1), {{10, slots::busy}}, ""},
      {numbered(10, 2), {{10, slots::busy}}, ""},
      {{}, {}, "held 10 "}}},
    {"one that was overwritten while it waited is dropped when its turn comes",
     {{numbered(10), {{10, slots::busy}}, ""},
      {{}, {{10, slots::overwritten}}, "dropped 10 (aborted) "},
      {{}, {}, ""}}},
    {"one that was overwritten before anybody looked is dropped at once",
     {{numbered(10), {{10, slots::overwritten}}, "dropped 10 (aborted) "}, {{}, {}, ""}}},
    {"a damaged one is never tried again",
     {{numbered(10), {{10, slots::corrupt}}, "dropped 10 (corrupt) "}, {{}, {}, ""}}},
};

TEST(checkpoint_line, holds_drops_and_waits_by_the_rule) {
  for (const auto& each : rules) {
    const std::map<std::uint64_t, slots>* now = nullptr;
    checkpoint_line line{[&](snapshot_set set) -> result<held_set> {
      const auto found = now->find(set.iteration.value());
      switch (found == now->end() ? slots::ok : found->second) {
        case slots::busy:
          return fail(error_code::busy, "held");
        case slots::overwritten:
          return fail(error_code::aborted, "gone");
        case slots::corrupt:
          return fail(error_code::corrupt, "nonsense");
        case slots::ok:
          break;
      }
      held_set held;
      held.set = std::move(set);
      return held;
    }};
    std::size_t step = 0;
    for (const auto& [set, slots_now, expected] : each.arrivals) {
      now = &slots_now;
      const auto made = set ? line.offer(*set) : line.retry();
      EXPECT_EQ(describe(made), expected) << each.name << ", step " << step;
      ++step;
    }
  }
}

// ---- two ranks that write, and a storage thread that is slow ------------------------------------

// Snapshots of two ranks, a checkpoint's due each time; jobs wait for the disk, one after another.
class slow_storage {
 public:
  // A step of both ranks: a snapshot each, without waiting.
  void step() {
    ++iteration_;
    a_.write(iteration_);
    b_.write(iteration_);
    auto sets =
        complete_sets({a_.entry, b_.entry}, two_tensors(), parts, branch_id{1}, generation_id{0});
    take(line_.offer(std::move(sets.front())));
  }

  // The disk is done with the job at the front, whose snapshot must still be the one that it was.
  void job_ends() {
    if (jobs_.empty()) return;
    ASSERT_TRUE(verify(jobs_.front()));
    committed_.push_back(jobs_.front().set.iteration.value());
    jobs_.pop_front();
    take(line_.retry());
  }

  // All are lost and replaced; what is held of the dead stays.
  void kill_all() {
    a_ = snapshot_memory{0};
    b_ = snapshot_memory{1};
  }

  [[nodiscard]] std::uint64_t iteration() const { return iteration_; }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] const std::vector<std::uint64_t>& committed() const { return committed_; }
  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  void take(checkpoint_line::decision made) {
    if (made.held) jobs_.push_back(std::move(*made.held));
    dropped_ += made.dropped.size();
  }

  snapshot_memory a_{0};
  snapshot_memory b_{1};
  set_holder holder_;
  checkpoint_line line_{
      [this](snapshot_set set) { return holder_.hold(two_tensors(), std::move(set)); }};
  std::deque<held_set> jobs_;
  std::vector<std::uint64_t> committed_;
  std::size_t dropped_ = 0;
  std::uint64_t iteration_ = 0;
};

TEST(checkpoint_line, a_disk_that_is_slower_than_the_steps_still_commits_one_after_another) {
  for (const std::uint64_t slowness : {1U, 2U, 3U, 7U, 50U}) {
    slow_storage run;
    while (run.iteration() < 20 * slowness) {
      run.step();
      ASSERT_LE(run.jobs(), storage::max_held_slots);
      if (run.iteration() % slowness == 0) run.job_ends();
    }
    // Each time that the disk was done with one, the next was there.
    ASSERT_EQ(run.committed().size(), 20U) << "slowness " << slowness;
    for (std::size_t i = 1; i < run.committed().size(); ++i) {
      EXPECT_GT(run.committed()[i], run.committed()[i - 1]);
      EXPECT_LE(run.committed()[i] - run.committed()[i - 1], 2 * slowness + 1);
    }
    // None is lost without being told of: it is on the disk, on its way, waiting or dropped.
    const auto accounted = run.committed().size() + run.jobs() + run.dropped();
    EXPECT_GE(accounted + 1, run.iteration());
    EXPECT_LE(accounted, run.iteration());
  }
}

TEST(checkpoint_line, a_disk_that_hangs_costs_no_snapshot_and_keeps_what_was_held_for_it) {
  slow_storage run;
  for (int i = 0; i < 1000; ++i) run.step();  // each asserts that both ranks found a slot
  EXPECT_EQ(run.jobs(), 2U);
  run.job_ends();
  run.job_ends();
  EXPECT_EQ(run.committed(), (std::vector<std::uint64_t>{1, 2}));
  run.job_ends();
  EXPECT_EQ(run.committed().back(), 1000U) << "the newest was still there when a slot was free";
}

TEST(checkpoint_line, a_disk_that_hangs_holds_no_more_memory_however_often_all_ranks_die) {
  slow_storage run;
  for (int life = 0; life < 20; ++life) {
    for (int i = 0; i < 10; ++i) run.step();
    ASSERT_EQ(run.jobs(), storage::max_held_slots);
    run.kill_all();
  }
  for (std::uint32_t i = 0; i < storage::max_held_slots; ++i) run.job_ends();
  EXPECT_EQ(run.committed(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(run.jobs(), 1U) << "the newest of the dead, which had waited";
}

TEST(checkpoint_line, says_of_what_it_drops_whether_it_had_waited_for_the_disk) {
  const auto busy = [](snapshot_set) -> result<held_set> { return fail(error_code::busy, "held"); };
  checkpoint_line slow{busy};
  EXPECT_TRUE(slow.offer(numbered(10)).dropped.empty());
  EXPECT_TRUE(slow.offer(numbered(20)).dropped.at(0).waited);
  checkpoint_line late{
      [](snapshot_set) -> result<held_set> { return fail(error_code::aborted, "overwritten"); }};
  EXPECT_FALSE(late.offer(numbered(10)).dropped.at(0).waited);
}

}  // namespace
}  // namespace ftrt::actors
