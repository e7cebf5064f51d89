#include <gtest/gtest.h>

#include <actors/recovery/straggler_watch.hpp>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

// Who is called a straggler, and who is not.
using namespace ftrt;
using namespace ftrt::recovery;

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// A group that trains; each window of it is told and judged at once.
class group {
 public:
  explicit group(std::vector<std::uint64_t> shares, straggler_limits limits = {})
      : watch(limits, shares), ranks_(shares.size()), uses(shares.size()) {
    watch.begin(generation, now);
  }

  // Ten iterations with these compute times, a little more than a second.
  straggler_watch::judgement pass(const std::vector<nanoseconds>& compute) {
    for (int i = 0; i < 10; ++i) iterate(compute);
    now += 1100ms;
    return watch.judge(now, uses);
  }
  straggler_watch::judgement pass(const std::vector<nanoseconds>& compute, int windows) {
    straggler_watch::judgement all;
    for (int i = 0; i < windows; ++i) {
      auto one = pass(compute);
      all.named.insert(all.named.end(), one.named.begin(), one.named.end());
      all.restored.insert(all.restored.end(), one.restored.begin(), one.restored.end());
    }
    return all;
  }
  void iterate(const std::vector<nanoseconds>& compute) {
    at = at.next();
    for (std::uint32_t r = 0; r < ranks_; ++r) watch.add(rank_id{r}, generation, at, compute[r]);
  }
  void next_generation() {
    generation = generation.next();
    watch.begin(generation, now);
  }

  straggler_watch watch;
  generation_id generation{1};
  iteration_id at;
  time_point now{1h};

 private:
  std::size_t ranks_;

 public:
  std::vector<std::optional<processor_use>> uses;
};

TEST(straggler_watch, C07_a_rank_that_computes_200_ms_longer_is_named_after_three_windows) {
  group g{{1, 1, 1}};
  EXPECT_TRUE(g.pass({10ms, 210ms, 12ms}, 2).named.empty());
  const auto found = g.pass({10ms, 210ms, 12ms});
  ASSERT_EQ(found.named.size(), 1U);
  EXPECT_EQ(found.named[0].rank, rank_id{1});
  EXPECT_EQ(found.named[0].compute, 210ms);
  EXPECT_EQ(found.named[0].others, 12ms);
  EXPECT_EQ(found.named[0].since, iteration_id{1});
  EXPECT_FALSE(found.named[0].replaced);
  EXPECT_EQ(g.watch.current(), found.named);
  EXPECT_EQ(g.watch.compute_times(), (std::vector<nanoseconds>{10ms, 210ms, 12ms}));
  EXPECT_TRUE(g.pass({10ms, 210ms, 12ms}, 20).named.empty()) << "it is said once";
}

TEST(straggler_watch, of_two_ranks_the_slower_one_is_named) {
  group g{{1, 1}};
  const auto found = g.pass({30ms, 10ms}, 3);
  ASSERT_EQ(found.named.size(), 1U);
  EXPECT_EQ(found.named[0].rank, rank_id{0});
}

TEST(straggler_watch, one_that_is_as_fast_as_the_others_again_is_told_once) {
  group g{{1, 1}};
  ASSERT_EQ(g.pass({30ms, 10ms}, 3).named.size(), 1U);
  EXPECT_TRUE(g.pass({10ms, 10ms}, 2).restored.empty());
  const auto found = g.pass({10ms, 10ms});
  ASSERT_EQ(found.restored.size(), 1U);
  EXPECT_EQ(found.restored[0].rank, rank_id{0});
  EXPECT_TRUE(g.watch.current().empty());
  EXPECT_TRUE(g.pass({10ms, 10ms}, 5).restored.empty());
}

struct fine_case {
  const char* why;
  std::vector<std::uint64_t> shares;
  std::vector<nanoseconds> compute;
};

class nobody_is_named : public ::testing::TestWithParam<fine_case> {};

TEST_P(nobody_is_named, in_any_window) {
  group g{GetParam().shares};
  EXPECT_TRUE(g.pass(GetParam().compute, 10).named.empty()) << GetParam().why;
}

INSTANTIATE_TEST_SUITE_P(
    each, nobody_is_named,
    ::testing::Values(
        fine_case{"a rank alone has no others", {1}, {1s}},
        fine_case{"twice as long is the limit, not beyond it", {1, 1}, {20ms, 10ms}},
        fine_case{"five times of next to nothing is nothing", {1, 1}, {5ms, 1ms}},
        fine_case{"two micro-batches take twice as long as one", {2, 1}, {44ms, 20ms}},
        fine_case{"all are slow", {1, 1, 1}, {300ms, 300ms, 300ms}},
        fine_case{
            "a rank that is fast does not make the others slow", {1, 1, 1}, {30ms, 1ms, 30ms}},
        fine_case{"clocks that ran backwards", {1, 1}, {-5s, -7s}},
        fine_case{"nothing at all", {1, 1}, {0ms, 0ms}}));

TEST(straggler_watch, one_long_stall_makes_no_straggler) {
  group g{{1, 1}};
  for (int window = 0; window < 10; ++window) {
    g.iterate({3s, 10ms});
    EXPECT_TRUE(g.pass({10ms, 10ms}).named.empty());
  }
}

TEST(straggler_watch, windows_that_are_not_in_a_row_make_no_straggler) {
  group g{{1, 1}};
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(g.pass({40ms, 10ms}, 2).named.empty());
    EXPECT_TRUE(g.pass({10ms, 10ms}).named.empty());
  }
}

// 30 ms more in each of ten iterations, all of them in the queue for a processor.
TEST(straggler_watch, time_without_a_processor_does_not_count) {
  group g{{1, 1}};
  nanoseconds ran = 1s;
  nanoseconds waited = 0s;
  for (int window = 0; window < 10; ++window) {
    ran += 100ms;
    waited += 300ms;
    g.uses[0] = processor_use{ran, waited, false};
    g.uses[1] = processor_use{ran, 0s, false};
    const auto found = g.pass({40ms, 10ms});
    EXPECT_TRUE(found.named.empty()) << window;
  }
  // The first window had no account of its beginning: one window in a row at most.
  EXPECT_TRUE(g.watch.current().empty());
}

// A machine that starves one of two equal ranks must not make the other one look slow.
TEST(straggler_watch, C07_a_starved_rank_makes_no_straggler_of_the_others) {
  group g{{1, 1}};
  nanoseconds waited = 0s;
  for (int window = 0; window < 10; ++window) {
    waited += 10s;  // most of it in collectives
    g.uses[0] = processor_use{1s + window * 100ms, waited, false};
    g.uses[1] = processor_use{1s + window * 100ms, 0s, false};
    EXPECT_TRUE(g.pass({20ms, 20ms}).named.empty()) << window;
  }
}

TEST(straggler_watch, a_slow_rank_is_named_on_a_loaded_machine_too) {
  group g{{1, 1}};
  nanoseconds ran = 1s;
  straggler_watch::judgement found;
  for (int window = 0; window < 4 && found.named.empty(); ++window) {
    ran += 100ms;
    g.uses[0] = processor_use{ran, window * 300ms, false};
    found = g.pass({140ms, 10ms});
  }
  ASSERT_EQ(found.named.size(), 1U);
  EXPECT_EQ(found.named[0].rank, rank_id{0});
}

TEST(straggler_watch, nothing_is_judged_before_a_window_is_full) {
  group g{{1, 1}};
  EXPECT_FALSE(g.watch.is_due(g.now + 1min)) << "no iteration";
  for (int i = 0; i < 7; ++i) g.iterate({50ms, 10ms});
  EXPECT_FALSE(g.watch.is_due(g.now + 1min)) << "too few of them";
  for (int i = 0; i < 100; ++i) g.iterate({50ms, 10ms});
  EXPECT_FALSE(g.watch.is_due(g.now + 900ms)) << "too short";
  EXPECT_TRUE(g.watch.is_due(g.now + 1s));
}

TEST(straggler_watch, iterations_that_not_all_ranks_have_told_wait_for_the_next_window) {
  group g{{1, 1}};
  for (int i = 0; i < 8; ++i) g.iterate({10ms, 10ms});
  for (std::uint64_t k = 9; k < 30; ++k)
    g.watch.add(rank_id{0}, g.generation, iteration_id{k}, 10ms);
  g.now += 2s;
  ASSERT_TRUE(g.watch.is_due(g.now));
  static_cast<void>(g.watch.judge(g.now, g.uses));
  for (std::uint64_t k = 9; k < 30; ++k)
    g.watch.add(rank_id{1}, g.generation, iteration_id{k}, 10ms);
  EXPECT_TRUE(g.watch.is_due(g.now + 1s));
}

TEST(straggler_watch, a_new_generation_begins_the_count_anew_and_forgets_nobody_who_was_named) {
  group g{{1, 1}};
  static_cast<void>(g.pass({40ms, 10ms}, 2));
  g.next_generation();
  EXPECT_TRUE(g.pass({40ms, 10ms}, 2).named.empty());
  EXPECT_EQ(g.pass({40ms, 10ms}).named.size(), 1U);
  g.next_generation();
  EXPECT_EQ(g.watch.current().size(), 1U);
  EXPECT_TRUE(g.pass({40ms, 10ms}, 5).named.empty());
}

TEST(straggler_watch, a_rank_whose_replacement_is_slow_too_is_only_reported_from_then_on) {
  group g{{1, 1}};
  ASSERT_EQ(g.pass({40ms, 10ms}, 3).named.size(), 1U);
  g.watch.replaced(rank_id{0});
  EXPECT_TRUE(g.watch.current().empty());
  g.next_generation();
  auto found = g.pass({40ms, 10ms}, 3);
  ASSERT_EQ(found.named.size(), 1U);
  EXPECT_TRUE(found.named[0].replaced);
  // Up and down, for as long as one likes: never a rank to be replaced.
  for (int i = 0; i < 50; ++i) {
    for (const auto& slow : g.pass({10ms, 10ms}, 5).named) EXPECT_TRUE(slow.replaced);
    for (const auto& slow : g.pass({40ms, 10ms}, 5).named) EXPECT_TRUE(slow.replaced);
    for (const auto& slow : g.watch.current()) EXPECT_TRUE(slow.replaced);
  }
}

TEST(straggler_watch, a_replacement_that_helped_for_a_minute_may_be_replaced_again) {
  group g{{1, 1}};
  ASSERT_EQ(g.pass({40ms, 10ms}, 3).named.size(), 1U);
  g.watch.replaced(rank_id{0});
  g.next_generation();
  EXPECT_TRUE(g.pass({10ms, 10ms}, 60).named.empty());
  const auto found = g.pass({40ms, 10ms}, 3);
  ASSERT_EQ(found.named.size(), 1U);
  EXPECT_FALSE(found.named[0].replaced);
}

TEST(straggler_watch, each_replacement_must_help_for_twice_as_long_before_there_is_another) {
  group g{{1, 1}, {.probation = 10, .longest_probation = 40}};
  for (const int needed : {10, 20, 40, 40}) {
    g.pass({10ms, 10ms}, 100);
    g.pass({40ms, 10ms}, 3);
    ASSERT_TRUE(g.watch.candidate().has_value()) << needed;
    g.watch.replaced(rank_id{0});
    g.next_generation();
    g.pass({10ms, 10ms}, needed - 1);
    g.pass({40ms, 10ms}, 3);
    EXPECT_FALSE(g.watch.candidate().has_value()) << needed;
    ASSERT_EQ(g.watch.current().size(), 1U) << needed;
    EXPECT_TRUE(g.watch.current()[0].replaced) << needed;
    g.pass({10ms, 10ms}, needed);
    g.pass({40ms, 10ms}, 3);
    ASSERT_TRUE(g.watch.candidate().has_value()) << needed;
    g.pass({10ms, 10ms}, 3);
  }
}

TEST(straggler_watch, the_slowest_of_those_that_are_slow_now_is_the_candidate) {
  group g{{1, 1, 1, 1, 1}};
  EXPECT_FALSE(g.watch.candidate().has_value());
  g.pass({10ms, 40ms, 10ms, 60ms, 10ms}, 3);
  ASSERT_TRUE(g.watch.candidate().has_value());
  EXPECT_EQ(g.watch.candidate()->rank, rank_id{3});
  g.watch.replaced(rank_id{3});
  g.next_generation();
  g.pass({10ms, 40ms, 10ms, 60ms, 10ms}, 3);
  ASSERT_EQ(g.watch.current().size(), 2U);
  ASSERT_TRUE(g.watch.candidate().has_value());
  EXPECT_EQ(g.watch.candidate()->rank, rank_id{1}) << "a new process has not helped the other";
}

// Another loss may have given it a new process.
TEST(straggler_watch,
     who_was_named_in_another_generation_is_no_candidate_before_it_is_slow_in_this) {
  group g{{1, 1}};
  g.pass({40ms, 10ms}, 3);
  ASSERT_TRUE(g.watch.candidate().has_value());
  g.next_generation();
  EXPECT_FALSE(g.watch.candidate().has_value());
  g.pass({40ms, 10ms}, 2);
  EXPECT_FALSE(g.watch.candidate().has_value());
  g.pass({40ms, 10ms});
  EXPECT_TRUE(g.watch.candidate().has_value());
  g.pass({10ms, 10ms});
  EXPECT_FALSE(g.watch.candidate().has_value()) << "it is not slow now";
  EXPECT_EQ(g.watch.current().size(), 1U);
}

// Noise of any kind on equal ranks, with a heavy tail: nobody.
TEST(straggler_watch, noise_names_nobody) {
  const char* given = std::getenv("FTRT_SEED");
  const auto seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("FTRT_SEED=" + std::to_string(seed));
  std::mt19937_64 random{seed};
  group g{{1, 1, 1}};
  std::uniform_real_distribution<double> even{8, 14};
  std::bernoulli_distribution stalls{0.1};
  for (int window = 0; window < 2000; ++window) {
    for (int i = 0; i < 60; ++i) {
      std::vector<nanoseconds> compute;
      for (int r = 0; r < 3; ++r) {
        const double ms = even(random) * (stalls(random) ? 20 : 1);
        compute.push_back(nanoseconds{static_cast<std::int64_t>(ms * 1e6)});
      }
      g.iterate(compute);
    }
    g.now += 1s;
    ASSERT_TRUE(g.watch.judge(g.now, g.uses).named.empty()) << window;
  }
}

TEST(straggler_watch, whatever_a_ring_says_it_stays_bounded_and_whole) {
  group g{{1, 1}};
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t k = 1; k < 20000; ++k) {
    g.watch.add(rank_id{0}, g.generation, iteration_id{k}, nanoseconds{most});
    g.watch.add(rank_id{1}, g.generation, iteration_id{k}, nanoseconds{-most});
    g.watch.add(rank_id{7}, g.generation, iteration_id{k}, 1ms);
    g.watch.add(rank_id{1}, g.generation, iteration_id{~k}, 1ms);
  }
  g.watch.replaced(rank_id{7});
  g.now += 2s;
  g.uses[0] = processor_use{nanoseconds{most}, nanoseconds{most}, true};
  static_cast<void>(g.watch.judge(g.now, g.uses));
  g.now += 2s;
  static_cast<void>(g.watch.judge(g.now, {}));
  EXPECT_FALSE(g.watch.is_due(g.now));
}

}  // namespace
