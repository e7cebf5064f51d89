// The actors of a run, whole and real, in virtual time: what takes hours.

#include <gtest/gtest.h>

#include <algorithm>
#include <tests/actors/control/virtual_checks.hpp>

namespace ftrt::actors::testing {
namespace {

using namespace std::chrono_literals;
using recovery::run_outcome;

// ---- C40: every wait has an end -----------------------------------------------------------------

// When `condition` came true, from now on in virtual time; a test failure where it did not.
std::chrono::nanoseconds time_until(virtual_run& run, const std::function<bool()>& condition) {
  const auto begun = run.elapsed();
  EXPECT_TRUE(run.until(condition, 12h));
  return run.elapsed() - begun;
}

void expect_about(std::chrono::nanoseconds waited, std::chrono::nanoseconds limit) {
  EXPECT_GE(waited, limit - 1s);
  EXPECT_LE(waited, limit + 1s);
}

void expect_completed(virtual_run& run) {
  const auto end = run.to_its_end();
  EXPECT_EQ(end.outcome, run_outcome::completed) << end.error;
  EXPECT_GE(run.workers().committed(), 30U);
}

bool was_told(const virtual_run& run, event::kind what, const std::string& text) {
  const auto all = run.texts(what);
  return std::ranges::any_of(
      all, [&](const std::string& each) { return each.find(text) != std::string::npos; });
}

TEST(virtual_time, C40_a_worker_that_does_not_say_hello_is_replaced_at_its_deadline) {
  virtual_run run{wait_for_hours};
  run.workers().silence(r1, word::hello, true);
  ASSERT_TRUE(run.until([&] { return run.workers().orders().size() == 2; }));
  run.workers().silence(r1, word::none, true);
  run.workers().silence(r1, word::hello);
  expect_about(time_until(run, [&] { return run.workers().orders().size() == 3; }), 1h);
  EXPECT_TRUE(was_told(run, event::kind::worker_lost, "did not say hello in time"));
  expect_completed(run);
}

TEST(virtual_time, C40_a_worker_that_does_not_leave_its_generation_is_replaced_at_its_deadline) {
  virtual_run run{wait_for_hours};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().silence(r1, word::parked);
  run.workers().die(r0, "killed");
  ASSERT_TRUE(run.until([&] { return run.workers().orders().size() == 3; }));
  expect_about(time_until(run, [&] { return run.workers().orders().size() == 4; }), 2h);
  EXPECT_TRUE(was_told(run, event::kind::worker_lost, "did not leave its generation in time"));
  expect_completed(run);
}

TEST(virtual_time, C40_joins_that_are_never_answered_end_the_run_after_so_many_deadlines) {
  virtual_run run{wait_for_hours};
  run.workers().silence(r1, word::joined, true);
  expect_about(time_until(run, [&] { return run.end().has_value(); }), 2h);
  EXPECT_EQ(run.end()->outcome, run_outcome::failed);
  EXPECT_NE(run.end()->error.find("did not join in time"), std::string::npos) << run.end()->error;
}

TEST(virtual_time, C40_a_stop_that_a_rank_never_answers_ends_by_its_deadline) {
  virtual_run run{wait_for_hours};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().silence(r1, word::finished);
  run.board().request_stop("somebody");
  expect_about(time_until(run, [&] { return run.end().has_value(); }), 2h);
  EXPECT_EQ(run.end()->outcome, run_outcome::stopped);
  EXPECT_NE(run.end()->error.find("the stop's deadline passed"), std::string::npos);
}

TEST(virtual_time, C40_a_disk_that_never_takes_the_final_checkpoint_fails_the_run_in_the_end) {
  virtual_run run{wait_for_hours};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.disk().hangs = true;
  const auto end = run.to_its_end(12h);
  EXPECT_EQ(end.outcome, run_outcome::failed);
  EXPECT_NE(end.error.find("nobody said that it was written"), std::string::npos) << end.error;
  EXPECT_EQ(run.workers().committed(), 30U) << "training itself waits for no disk";
  EXPECT_GE(run.elapsed(), 2h) << "stop_timeout";
  EXPECT_LT(run.elapsed(), 2h + 15min);
}

TEST(virtual_time, C40_a_search_for_a_state_that_is_never_answered_fails_the_run_in_the_end) {
  virtual_run run{[](scenario& values) {
    wait_for_hours(values);
    values.checkpoint.restore_from_memory = false;
  }};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.disk().hangs = true;
  run.workers().die(r0, "killed");
  run.workers().die(r1, "killed");
  const auto end = run.to_its_end(12h);
  EXPECT_EQ(end.outcome, run_outcome::failed);
  EXPECT_NE(end.error.find("no answer to the search"), std::string::npos) << end.error;
  EXPECT_LT(run.elapsed(), 5min);
}

// As all of these are found out by deadlines of the machine's, each must outlive the actor that
// set it.
TEST(virtual_time, C40_a_deadline_is_set_anew_by_a_supervisor_that_takes_over) {
  virtual_run run{wait_for_hours};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().silence(r1, word::parked);
  run.workers().die(r0, "killed");
  ASSERT_TRUE(run.until([&] { return run.workers().orders().size() == 3; }));
  run.pass(90min);
  run.workers().silence(r1, word::hello);
  ASSERT_TRUE(run.kill("run_supervisor"));
  expect_about(time_until(run, [&] { return run.workers().orders().size() == 4; }), 1h);
  expect_completed(run);
}

// ---- backoff and budgets over hours -------------------------------------------------------------

TEST(virtual_time, a_worker_that_cannot_be_started_is_tried_for_hours_ever_more_rarely) {
  virtual_run run{[](scenario& values) {
    wait_for_hours(values);
    values.supervision.no_replacement = replacement_policy::wait;
    values.supervision.backoff_initial = 100ms;
    values.supervision.backoff_max = 5min;
  }};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().refuse_to_start(r1, true);
  run.workers().die(r1, "killed");
  run.pass(2h);
  EXPECT_FALSE(run.end()) << "it waits for as long as it takes";
  const auto& orders = run.workers().orders();
  ASSERT_GT(orders.size(), 30U);
  EXPECT_LT(orders.size(), 70U);
  std::chrono::nanoseconds nominal = 100ms;
  for (std::size_t i = 3; i < orders.size(); ++i) {
    const auto waited = orders[i].at - orders[i - 1].at;
    EXPECT_GE(waited, nominal / 2 - 1ms) << i;
    EXPECT_LE(waited, nominal + 1ms) << i;
    nominal = std::min<std::chrono::nanoseconds>(2 * nominal, 5min);
  }
  run.workers().refuse_to_start(r1, false);
  expect_whole(run);
}

// Each death of an actor is told of with the time to its restart.
std::size_t restarts_of(virtual_run& run) {
  return run.board().summary().actor_restarts.size();
}

bool die_and_return(virtual_run& run, const std::string& name) {
  const auto before = restarts_of(run);
  run.kill(name);
  return run.until([&] { return run.end() || restarts_of(run) > before; }, 1h) && !run.end();
}

TEST(virtual_time, actors_that_die_each_minute_go_on_for_ever_and_no_rank_notices) {
  virtual_run run{[](scenario& values) {
                    values.supervision.max_restarts = 3;
                    values.supervision.window = 10min;
                  },
                  3'000'000};
  for (int minute = 0; minute < 30; ++minute) {
    run.pass(1min);
    ASSERT_TRUE(die_and_return(run, every_actor[1 + static_cast<std::size_t>(minute) % 5]));
    EXPECT_LT(run.board().summary().actor_restarts.back().ms, 1.0);
  }
  EXPECT_EQ(run.board().current().generation, generation_id{1}) << "the ranks noticed nothing";
  EXPECT_FALSE(run.end());
}

TEST(virtual_time, an_actor_that_dies_again_and_again_waits_ever_longer_and_then_ends_the_run) {
  virtual_run run{[](scenario& values) {
                    values.supervision.max_restarts = 12;
                    values.supervision.backoff_max = 1h;
                  },
                  3'000'000};
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  std::vector<double> waits;
  while (die_and_return(run, "metrics"))
    waits.push_back(run.board().summary().actor_restarts.back().ms);
  ASSERT_EQ(waits.size(), 12U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(waits[i], 1.0);
  EXPECT_TRUE(std::is_sorted(waits.begin() + 4, waits.end()));
  EXPECT_GT(waits.back(), 10 * waits[5]);
  EXPECT_EQ(run.end()->outcome, run_outcome::failed);
  EXPECT_NE(run.end()->error.find("metrics died more than 12 times"), std::string::npos)
      << run.end()->error;
}

// ---- stragglers over hours ----------------------------------------------------------------------

void replace_stragglers(scenario& values) {
  values.supervision.on_straggler = straggler_policy::replace;
  values.supervision.spares = 0;
  values.checkpoint.every_iterations = 0;
}

constexpr std::uint64_t without_end = 3'000'000;

TEST(virtual_time, C07_a_rank_that_every_process_is_slow_at_is_replaced_once_and_then_reported) {
  virtual_run run{replace_stragglers, without_end};
  run.workers().step = 100ms;
  run.workers().compute = [](rank_id rank, incarnation_id) { return rank == r1 ? 90ms : 20ms; };
  run.pass(30min);
  EXPECT_EQ(run.workers().orders().size(), 3U);
  EXPECT_FALSE(run.workers().had_state_lost());
  const auto told = run.texts(event::kind::straggler);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_NE(told[0].find("computes for 90.0 ms"), std::string::npos) << told[0];
  EXPECT_NE(told[1].find("a new process takes its place"), std::string::npos) << told[1];
  EXPECT_NE(told[2].find("a new process has not helped"), std::string::npos) << told[2];
}

// Each new process is fast for a time and then slow, as one that leaks. How often that is worth a
// replacement falls with each.
TEST(virtual_time, C07_a_rank_that_is_slow_again_after_a_while_is_replaced_ever_more_rarely) {
  virtual_run run{replace_stragglers, without_end};
  run.workers().step = 100ms;
  run.workers().compute = [&](rank_id rank, incarnation_id incarnation) {
    const auto& orders = run.workers().orders();
    const auto born = std::ranges::find_if(orders, [&](const auto& each) {
      return each.rank == rank && each.incarnation == incarnation;
    });
    const bool is_slow = rank == r1 && host::monotonic_now() - born->at > 5min;
    return is_slow ? 90ms : 20ms;
  };
  run.pass(3h);
  // After one, two and four minutes in order; eight of them no process comes to.
  EXPECT_EQ(run.workers().orders().size(), 2U + 4U);
  EXPECT_FALSE(run.workers().had_state_lost());
  EXPECT_EQ(run.board().summary().recoveries.size(), 4U);
  EXPECT_NE(run.texts(event::kind::straggler).back().find("so it stays"), std::string::npos);
}

TEST(virtual_time, C07_a_machine_that_is_slow_as_a_whole_replaces_nobody) {
  virtual_run run{replace_stragglers, without_end};
  run.workers().step = 100ms;
  run.workers().compute = [&](rank_id, incarnation_id) {
    return run.elapsed() > 5min ? 95ms : 5ms;
  };
  run.pass(20min);
  EXPECT_EQ(run.workers().orders().size(), 2U);
  EXPECT_TRUE(run.texts(event::kind::straggler).empty());
}

// ---- fencing ------------------------------------------------------------------------------------

TEST(virtual_time, what_a_lost_worker_says_late_changes_nothing) {
  virtual_run run;
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 12; }));
  run.workers().die(r1, "killed");
  ASSERT_TRUE(run.until([&] { return run.workers().committed() == 14; }));
  const generation_id old{1};
  const std::vector<protocol::message> late{
      protocol::hello{},
      protocol::parked{old, iteration_id{12}, {}, false, true},
      protocol::joined{old, iteration_id{12}, "another state"},
      protocol::join_failed{old, error_code::io, "late"},
      protocol::finished{old, iteration_id{13}, 13, true, "other weights"},
      protocol::program_failed{old, iteration_id{13}, "threw"},
      protocol::not_finite{old, iteration_id{13}, {r1}},
      protocol::peer_lost{old, {r0}},
      protocol::snapshot_ready{old, branch_id{1}, iteration_id{20}, 0, 1, 2, true}};
  for (const auto& message : late) {
    const worker_message said{r1, incarnation_id{1}, message};
    run.context().post<run_supervisor_actor>(said);
    if (std::holds_alternative<protocol::snapshot_ready>(message)) continue;
    // The same from the one that lives, of the generation before: it may have been under way.
    run.context().post<run_supervisor_actor>(
        worker_message{r0, incarnation_id{1},
                       std::holds_alternative<protocol::hello>(message)
                           ? protocol::message{protocol::peer_lost{old, {r1}}}
                           : message});
  }
  expect_whole(run);
  EXPECT_EQ(run.board().current().generation, generation_id{2});
  EXPECT_EQ(run.board().summary().recoveries.size(), 1U);
  EXPECT_EQ(run.workers().orders().size(), 3U);
}

}  // namespace
}  // namespace ftrt::actors::testing
