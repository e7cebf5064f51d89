#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <runtime/training/flat_math.hpp>
#include <runtime/training/injury.hpp>
#include <vector>

namespace ftrt::training {
namespace {

using protocol::injure;
using protocol::injury_kind;
using protocol::injury_target;

// 10 parameters, a gap of 6, 16 more; then optimizer state that no injury may touch.
state_layout layout() {
  state_layout made;
  made.tensors = {
      {"a", dtype::f32, {10}, tensor_section::parameter, 0, 40},
      {"b", dtype::f32, {16}, tensor_section::parameter, 64, 64},
      {"optim.a", dtype::f32, {10}, tensor_section::optimizer, 128, 40},
  };
  made.arena_bytes = 168;
  return made;
}

std::vector<std::size_t> changed(const std::vector<float>& values, float from) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(from)) {
      places.push_back(i);
    }
  }
  return places;
}

TEST(injury, changes_one_element_of_a_parameter_as_its_seed_says) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> values(32, 0.5F);
    const injure what{injury_kind::flip_bit, injury_target::parameter, iteration_id{7}, seed};
    carry_out(what, layout(), values);
    const auto places = changed(values, 0.5F);
    ASSERT_EQ(places.size(), 1U) << seed;
    EXPECT_TRUE(places[0] < 10 || places[0] >= 16) << "a gap, seed " << seed;
    const auto bits =
        std::bit_cast<std::uint32_t>(values[places[0]]) ^ std::bit_cast<std::uint32_t>(0.5F);
    EXPECT_EQ(std::popcount(bits), 1) << seed;
    std::vector<float> again(32, 0.5F);
    carry_out(what, layout(), again);
    EXPECT_EQ(again, values) << seed;
  }
}

TEST(injury, passes_over_zeros_for_a_bit_that_matters) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> values(32, 0.0F);
    values[20] = 3.0F;
    carry_out({injury_kind::flip_bit, injury_target::gradient, iteration_id{1}, seed}, layout(),
              values);
    EXPECT_NE(values[20], 3.0F) << seed;
  }
}

TEST(injury, a_nan_is_one_even_among_zeros) {
  std::vector<float> values(32, 0.0F);
  EXPECT_TRUE(all_finite(values));
  carry_out({injury_kind::nan, injury_target::gradient, iteration_id{1}, 3}, layout(), values);
  EXPECT_FALSE(all_finite(values));
  EXPECT_EQ(changed(values, 0.0F).size(), 1U);
}

TEST(injury, waits_for_its_iteration_and_moment_and_happens_once) {
  injury_box box;
  const injure nan{injury_kind::nan, injury_target::gradient, iteration_id{5}, 1};
  const injure flip{injury_kind::flip_bit, injury_target::gradient, iteration_id{5}, 1};
  box.add(nan);
  box.add(flip);
  EXPECT_TRUE(box.take(iteration_id{4}, injury_moment::before_backward).empty());
  EXPECT_TRUE(box.take(iteration_id{5}, injury_moment::after_commit).empty());
  EXPECT_EQ(box.take(iteration_id{5}, injury_moment::before_backward).size(), 1U);
  EXPECT_TRUE(box.take(iteration_id{5}, injury_moment::before_backward).empty());
  EXPECT_EQ(box.take(iteration_id{9}, injury_moment::before_apply).size(), 1U) << "late, not never";
}

TEST(injury, the_oldest_of_too_many_is_forgotten) {
  injury_box box;
  for (std::uint64_t i = 1; i <= injury_box::capacity + 3; ++i) {
    box.add({injury_kind::nan, injury_target::parameter, iteration_id{i}, i});
  }
  const auto due = box.take(iteration_id{1000}, injury_moment::after_commit);
  ASSERT_EQ(due.size(), injury_box::capacity);
  EXPECT_EQ(due.front().seed, 4U);
}

TEST(injury, an_order_that_is_said_twice_happens_once) {
  injury_box box;
  injure nan{injury_kind::nan, injury_target::parameter, iteration_id{5}, 1, 7};
  box.add(nan);
  box.add(nan);
  EXPECT_EQ(box.take(iteration_id{5}, injury_moment::after_commit).size(), 1U);
  box.add(nan);
  EXPECT_TRUE(box.take(iteration_id{6}, injury_moment::after_commit).empty());
  nan.number = 8;
  box.add(nan);
  EXPECT_EQ(box.take(iteration_id{6}, injury_moment::after_commit).size(), 1U);
}

TEST(injury, of_a_phase_waits_for_that_phase) {
  using protocol::injury_phase;
  const std::vector<std::pair<injury_phase, injury_moment>> phases{
      {injury_phase::all_reduce, injury_moment::all_reduce},
      {injury_phase::optimizer, injury_moment::optimizer},
      {injury_phase::snapshot, injury_moment::snapshot},
      {injury_phase::join, injury_moment::join},
      {injury_phase::evaluate, injury_moment::evaluate},
      {injury_phase::start, injury_moment::start},
      {injury_phase::stop, injury_moment::stop}};
  for (const auto& [phase, moment] : phases) {
    injure what{injury_kind::kill, injury_target::gradient, iteration_id{5}};
    what.phase = phase;
    EXPECT_EQ(moment_of(what), moment);
    injury_box box;
    box.add(what);
    EXPECT_TRUE(box.take(iteration_id{4}, moment).empty());
    EXPECT_TRUE(box.take(iteration_id{5}, injury_moment::after_commit).empty());
    EXPECT_EQ(box.take(iteration_id{8}, moment).size(), 1U);
  }
}

TEST(injury, a_kill_is_a_sigkill_to_itself) {
  const injure what{injury_kind::kill, injury_target::gradient, iteration_id{1}};
  EXPECT_EXIT(strike(what), testing::KilledBySignal(SIGKILL), "");
}

TEST(injury, a_stop_is_a_sigstop_to_itself) {
  const auto child = ::fork();
  if (child == 0) {
    strike({injury_kind::stop, injury_target::gradient, iteration_id{1}});
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7) << "it goes on when it is continued";
}

TEST(injury, slows_so_many_iterations_and_no_other) {
  using namespace std::chrono_literals;
  const auto takes = [](const slowness& slow, std::uint64_t k) {
    const auto begun = std::chrono::steady_clock::now();
    slow.pause(iteration_id{k});
    return std::chrono::steady_clock::now() - begun;
  };
  slowness slow;
  injure what{injury_kind::slow, injury_target::gradient, iteration_id{5}};
  what.delay_ns = 20'000'000;
  what.iterations = 2;
  slow.begin(what, iteration_id{5});
  EXPECT_EQ(moment_of(what), injury_moment::begin);
  EXPECT_GE(takes(slow, 5), 20ms);
  EXPECT_GE(takes(slow, 6), 20ms);
  what.delay_ns = 3'000'000'000;
  what.iterations = 1;
  slow.begin(what, iteration_id{7});
  EXPECT_LT(takes(slow, 8), 3s);
  what.delay_ns = 1'000'000;
  what.iterations = 0;
  slow.begin(what, iteration_id{9});
  EXPECT_GE(takes(slow, 1'000'000), 1ms) << "as long as it lives";
}

}  // namespace
}  // namespace ftrt::training
