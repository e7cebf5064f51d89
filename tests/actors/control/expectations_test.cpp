#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <actors/control/chaos_rules.hpp>
#include <actors/control/expectations.hpp>

namespace ftrt::actors {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string digest(32, 'a');
const std::string another(32, 'b');

scenario expecting_the_same() {
  scenario values;
  values.chaos.resize(1);
  values.expect.weights_digest = "same_as_fault_free";
  return values;
}

run_summary ended(const std::string& status) {
  run_summary summary;
  summary.status = status;
  summary.weights_digest = digest;
  summary.recoveries.resize(2);
  return summary;
}

TEST(expectations, of_nothing_are_none) {
  EXPECT_THAT(judge({}, ended("completed"), 9, {}), IsEmpty());
  EXPECT_TRUE(all_met({}));
}

TEST(expectations, name_what_was_expected_and_what_was_found) {
  scenario values;
  values.expect.max_lost_iterations = 8;
  values.expect.min_recoveries = 3;
  values.expect.max_recoveries = 2;
  values.expect.min_actor_restarts = 0;
  values.expect.status = "failed";
  const auto judged = judge(values, ended("completed"), 9, {});
  ASSERT_THAT(judged, SizeIs(5));
  EXPECT_FALSE(all_met(judged));
  EXPECT_EQ(judged[0].name, "status");
  EXPECT_FALSE(judged[0].met);
  EXPECT_EQ(judged[1].name, "max_lost_iterations");
  EXPECT_EQ(judged[1].expected, "at most 8");
  EXPECT_EQ(judged[1].found, "9");
  EXPECT_FALSE(judged[1].met);
  EXPECT_EQ(judged[2].expected, "at least 3");
  EXPECT_EQ(judged[2].found, "2");
  EXPECT_FALSE(judged[2].met);
  EXPECT_TRUE(judged[3].met);
  EXPECT_TRUE(judged[4].met);
}

TEST(expectations, of_a_digest_compare_with_it) {
  scenario values;
  values.expect.weights_digest = digest;
  EXPECT_FALSE(needs_fault_free_run(values, ended("completed")));
  EXPECT_TRUE(all_met(judge(values, ended("completed"), 0, {})));
  values.expect.weights_digest = another;
  EXPECT_FALSE(all_met(judge(values, ended("completed"), 0, {})));
}

TEST(expectations, of_the_fault_free_digest_need_that_run) {
  const auto values = expecting_the_same();
  EXPECT_TRUE(needs_fault_free_run(values, ended("completed")));
  EXPECT_TRUE(all_met(judge(values, ended("completed"), 0, fault_free_outcome{digest, {}})));
  const auto judged = judge(values, ended("completed"), 0, fault_free_outcome{another, {}});
  ASSERT_THAT(judged, SizeIs(1));
  EXPECT_FALSE(judged[0].met);
  EXPECT_THAT(judged[0].expected, HasSubstr(another));
  EXPECT_EQ(judged[0].found, digest);
  const auto none = judge(values, ended("completed"), 0, fault_free_outcome{{}, "it failed"});
  EXPECT_FALSE(none.at(0).met);
  EXPECT_THAT(none[0].found, HasSubstr("it failed"));
}

TEST(expectations, a_run_without_faults_is_its_own_measure) {
  auto values = expecting_the_same();
  values.chaos.clear();
  EXPECT_FALSE(needs_fault_free_run(values, ended("completed")));
  EXPECT_TRUE(all_met(judge(values, ended("completed"), 0, {})));
}

TEST(expectations, a_run_without_weights_is_never_the_same) {
  auto summary = ended("failed");
  summary.weights_digest.clear();
  EXPECT_FALSE(needs_fault_free_run(expecting_the_same(), summary));
  EXPECT_FALSE(all_met(judge(expecting_the_same(), summary, 0, {})));
}

TEST(expectations, of_a_run_that_was_stopped_early_are_none_but_a_status_that_is_asked_for) {
  auto values = expecting_the_same();
  values.expect.min_recoveries = 100;
  EXPECT_FALSE(needs_fault_free_run(values, ended("stopped")));
  EXPECT_THAT(judge(values, ended("stopped"), 0, {}), IsEmpty());
  values.expect.status = "completed";
  EXPECT_FALSE(all_met(judge(values, ended("stopped"), 0, {})));
}

TEST(expectations, the_fault_free_run_trains_the_same_and_expects_nothing) {
  auto values = expecting_the_same();
  values.train.lr = 0.25;
  values.model.layers = {784, 10};
  values.data.path = "/data";
  const auto plain = fault_free(values, "/place");
  EXPECT_TRUE(plain.chaos.empty());
  EXPECT_TRUE(plain.expect.weights_digest.empty());
  EXPECT_EQ(plain.train.lr, 0.25);
  EXPECT_EQ(plain.run.seed, values.run.seed);
  EXPECT_EQ(plain.run.directory, "/place");
  EXPECT_THAT(check_scenario(plain), IsEmpty());
}

TEST(C37_chaos, a_fault_after_the_last_iteration_is_refused_once_that_is_known) {
  scenario values;
  values.chaos.resize(3);
  values.chaos[0].at_iteration = 128;
  values.chaos[1].at_iteration = 129;
  values.chaos[2].every_iterations = 500;
  const auto faults = faults_after_the_end(values, 128, "a.toml");
  ASSERT_THAT(faults, SizeIs(2));
  EXPECT_EQ(faults[0].describe(),
            "a.toml: chaos[1].at_iteration: expected at most 128, the run's last iteration, found "
            "129; the fault would never happen");
  EXPECT_EQ(faults[1].key, "chaos[2].every_iterations");
}

TEST(C37_chaos, a_program_that_nobody_brings_back_is_not_killed) {
  scenario values;
  values.chaos.resize(1);
  EXPECT_THAT(unwelcome_kinds(values, {}, {}), IsEmpty());
  values.chaos[0].kind = chaos_kind::kill_supervisor;
  const auto faults = unwelcome_kinds(values, {}, {});
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].key, "chaos[0].kind");
  run_options options;
  options.process_may_be_killed = true;
  EXPECT_THAT(unwelcome_kinds(values, options, {}), IsEmpty());
}

}  // namespace
}  // namespace ftrt::actors
