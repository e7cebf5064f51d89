#include <gtest/gtest.h>

#include <actors/control/chaos_schedule.hpp>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

chaos_entry kill_of(std::uint32_t rank) {
  chaos_entry entry;
  entry.ranks = {rank};
  return entry;
}

TEST(chaos_schedule, a_fault_at_an_iteration_fires_once_even_when_the_poll_is_late) {
  auto entry = kill_of(1);
  entry.at_iteration = 300;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{299}, 1s).empty());
  const auto due = schedule.due(iteration_id{307}, 2s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].what.ranks, (std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(schedule.due(iteration_id{308}, 3s).empty());
}

TEST(chaos_schedule, iterations_that_come_again_after_a_rollback_fire_nothing_again) {
  auto entry = kill_of(0);
  entry.every_iterations = 100;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_EQ(schedule.due(iteration_id{100}, 1s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{60}, 2s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{100}, 3s).empty());
  EXPECT_EQ(schedule.due(iteration_id{200}, 4s).size(), 1U);
  // A late poll skips to the next multiple instead of firing for each one that it missed.
  EXPECT_EQ(schedule.due(iteration_id{555}, 5s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{599}, 6s).empty());
  EXPECT_EQ(schedule.due(iteration_id{600}, 7s).size(), 1U);
}

TEST(chaos_schedule, the_next_fault_is_expected_by_the_pace_of_the_run) {
  auto entry = kill_of(0);
  entry.at_iteration = 300;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_EQ(schedule.next_due(iteration_id{200}, 5s, 10ms), 5s + 1s);
  EXPECT_EQ(schedule.next_due(iteration_id{299}, 5s, 10ms), 5s + 10ms);
  EXPECT_EQ(schedule.next_due(iteration_id{300}, 5s, 10ms), 5s) << "it is due";
  EXPECT_EQ(schedule.next_due(iteration_id{200}, 5s, 0ms), 5s) << "the pace is not known";
  EXPECT_LE(schedule.next_due({}, 5s, 1000h), 5s + 1h) << "no overflow";
  EXPECT_EQ(schedule.due(iteration_id{300}, 6s).size(), 1U);
  EXPECT_EQ(schedule.next_due(iteration_id{300}, 6s, 10ms), chaos_schedule::time_point::max());
}

TEST(chaos_schedule, the_next_fault_by_the_clock_or_ahead_of_its_iteration_is_expected_too) {
  auto timed = kill_of(0);
  timed.every = 2s;
  chaos_schedule by_clock{{timed}, 2};
  EXPECT_EQ(by_clock.next_due({}, 5s, 10ms), 5s) << "it begins to count with the first commit";
  EXPECT_TRUE(by_clock.due(iteration_id{1}, 5s).empty());
  EXPECT_EQ(by_clock.next_due(iteration_id{1}, 6s, 10ms), 7s);

  auto ordered = kill_of(1);
  ordered.kind = chaos_kind::flip_bit;
  ordered.at_iteration = chaos_schedule::lead + 200;
  EXPECT_EQ((chaos_schedule{{ordered}, 2}.next_due(iteration_id{100}, 5s, 10ms)), 5s + 1s);
}

TEST(chaos_schedule, wrong_numbers_are_ordered_ahead_of_their_exact_iteration) {
  auto entry = kill_of(1);
  entry.kind = chaos_kind::flip_bit;
  entry.every_iterations = 1000;
  entry.seed = 40;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{1000 - chaos_schedule::lead - 1}, 1s).empty());
  auto due = schedule.due(iteration_id{1000 - chaos_schedule::lead}, 2s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].what.at_iteration, 1000U);
  EXPECT_TRUE(schedule.due(iteration_id{1100}, 3s).empty());
  due = schedule.due(iteration_id{2000 - chaos_schedule::lead}, 4s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].what.at_iteration, 2000U);
  EXPECT_NE(due[0].what.seed, 40U) << "not the same number each time";
}

TEST(chaos_schedule, time_counts_from_the_first_commit) {
  auto entry = kill_of(0);
  entry.every = 2s;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.due(iteration_id{0}, 100s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{1}, 200s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{2}, 201s).empty());
  EXPECT_EQ(schedule.due(iteration_id{3}, 202s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{4}, 203s).empty());
  EXPECT_EQ(schedule.due(iteration_id{5}, 204s).size(), 1U);
}

TEST(chaos_schedule, random_times_are_a_function_of_the_seed_and_have_the_mean_asked_for) {
  const auto times = [](std::uint64_t seed) {
    auto entry = kill_of(0);
    entry.mtbf = 1s;
    entry.seed = seed;
    chaos_schedule schedule{{entry}, 2};
    std::vector<std::chrono::nanoseconds> fired;
    for (auto now = 0ms; now < 2000s; now += 10ms) {
      if (!schedule.due(iteration_id{1}, now + 1ms).empty()) fired.push_back(now);
    }
    return fired;
  };
  const auto first = times(1);
  EXPECT_EQ(first, times(1));
  EXPECT_NE(first, times(2));
  // 2000 expected; the standard deviation is about 45.
  EXPECT_NEAR(static_cast<double>(first.size()), 2000, 250);
}

TEST(chaos_schedule, all_ranks_means_every_rank_of_the_world_and_a_count_ends_it) {
  chaos_entry entry;
  entry.all_ranks = true;
  entry.every_iterations = 10;
  entry.max_count = 2;
  chaos_schedule schedule{{entry}, 3};
  const auto due = schedule.due(iteration_id{10}, 1s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].what.ranks, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(schedule.due(iteration_id{20}, 1s).size(), 1U);
  EXPECT_TRUE(schedule.due(iteration_id{30}, 1s).empty());
}

TEST(chaos_schedule, poison_is_left_to_the_workers) {
  auto entry = kill_of(1);
  entry.kind = chaos_kind::poison;
  entry.at_iteration = 10;
  chaos_schedule schedule{{entry}, 2};
  EXPECT_TRUE(schedule.empty());
  EXPECT_TRUE(schedule.due(iteration_id{10}, 1s).empty());
  EXPECT_TRUE(schedule.unfired().empty()) << "nobody knows whether it met anybody";
  // Entries keep the numbers that the scenario gives them.
  auto later = kill_of(0);
  later.at_iteration = 10;
  chaos_schedule both{{entry, later}, 2, {{}, {}}};
  const auto due = both.due(iteration_id{10}, 1s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].entry, 1U);
}

fault_history history_of(std::initializer_list<std::uint64_t> iterations) {
  fault_history history;
  for (const auto iteration : iterations) history.firings.push_back({iteration_id{iteration}, {}});
  return history;
}

TEST(chaos_schedule, what_happened_before_the_run_was_resumed_does_not_happen_again) {
  auto once = kill_of(0);
  once.at_iteration = 300;
  auto repeated = kill_of(1);
  repeated.every_iterations = 100;
  auto counted = kill_of(1);
  counted.every_iterations = 100;
  counted.max_count = 2;
  auto later = kill_of(0);
  later.at_iteration = 400;
  chaos_schedule schedule{{once, repeated, counted, later},
                          2,
                          {history_of({300}), history_of({100, 200}), history_of({100, 200}), {}}};
  // Resumed at 150, so that some iterations come again.
  EXPECT_TRUE(schedule.due(iteration_id{150}, 1s).empty());
  EXPECT_TRUE(schedule.due(iteration_id{299}, 2s).empty());
  auto due = schedule.due(iteration_id{300}, 3s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].entry, 1U);
  due = schedule.due(iteration_id{400}, 4s);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[1].entry, 3U);
}

TEST(chaos_schedule, random_times_go_on_where_the_run_before_left_them) {
  auto entry = kill_of(0);
  entry.mtbf = 1s;
  entry.seed = 3;
  const auto pauses = [&](const std::vector<fault_history>& history, std::size_t count) {
    chaos_schedule schedule{{entry}, 2, history};
    std::vector<std::chrono::nanoseconds> made;
    auto last = 0ms;
    for (auto now = 0ms; made.size() < count; now += 1ms) {
      if (schedule.due(iteration_id{1}, now + 1h).empty()) continue;
      made.push_back(now - last);
      last = now;
    }
    return made;
  };
  const auto whole = pauses({}, 6);
  const auto rest = pauses({history_of({1, 1, 1})}, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(static_cast<double>(rest[i].count()), static_cast<double>(whole[i + 3].count()),
                2e6);
  }
}

TEST(chaos_schedule, faults_of_phases_that_say_no_time_are_due_before_there_are_workers) {
  auto entry = kill_of(1);
  entry.in = chaos_phase::start;
  auto other = kill_of(0);
  other.at_iteration = 5;
  chaos_schedule schedule{{other, entry}, 2};
  EXPECT_EQ(schedule.unfired().size(), 2U);
  const auto due = schedule.due_at_once();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].entry, 1U);
  EXPECT_EQ(due[0].what.at_iteration, 0U);
  EXPECT_TRUE(schedule.due_at_once().empty());
  EXPECT_TRUE(schedule.due(iteration_id{4}, 1s).empty());
  EXPECT_EQ(schedule.unfired(), (std::vector<std::size_t>{0}));
  EXPECT_EQ(schedule.due(iteration_id{5}, 2s).size(), 1U);
  EXPECT_TRUE(schedule.unfired().empty());
  // Not after a resumption either.
  chaos_schedule resumed{{other, entry}, 2, {{}, history_of({0})}};
  EXPECT_TRUE(resumed.due_at_once().empty());
}

TEST(chaos_schedule, a_fault_of_a_phase_is_ordered_ahead_but_not_that_of_a_start) {
  auto in_optimizer = kill_of(1);
  in_optimizer.in = chaos_phase::optimizer;
  in_optimizer.at_iteration = 1000;
  auto in_start = kill_of(1);
  in_start.in = chaos_phase::start;
  in_start.at_iteration = 1000;
  chaos_schedule schedule{{in_optimizer, in_start}, 2};
  const auto due = schedule.due(iteration_id{1000 - chaos_schedule::lead}, 1s);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].entry, 0U);
  EXPECT_EQ(due[0].what.at_iteration, 1000U);
  EXPECT_EQ(schedule.due(iteration_id{1000}, 2s).size(), 1U);
}

}  // namespace
}  // namespace ftrt::actors
