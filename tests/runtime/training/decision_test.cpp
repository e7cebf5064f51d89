#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <runtime/training/bucket_plan.hpp>
#include <runtime/training/decision.hpp>
#include <runtime/training/flat_math.hpp>
#include <runtime/training/schedule.hpp>
#include <runtime/training/state_map.hpp>

namespace ftrt::training {
namespace {

control_word word(double loss, std::uint64_t samples, std::uint32_t flags = 0) {
  return {7, 0, flags, 2.5, loss, samples};
}

TEST(decision, the_loss_is_the_mean_over_all_samples_of_the_window) {
  const std::array words{word(6, 4), word(3, 2), word(0, 0)};
  const auto d = decide(words);
  EXPECT_DOUBLE_EQ(d.loss, 1.5);
  EXPECT_EQ(d.samples, 6U);
  EXPECT_EQ(d.grad_norm, 2.5);
  EXPECT_FALSE(d.stop || d.snapshot || d.skip || d.divergent);
}

TEST(decision, one_rank_that_asks_is_enough) {
  const std::array words{word(1, 1), word(1, 1, flag_stop), word(1, 1, flag_snapshot)};
  EXPECT_TRUE(decide(words).stop);
  EXPECT_TRUE(decide(words).snapshot);
}

TEST(decision, an_infinity_on_every_rank_skips_the_step_and_is_no_divergence) {
  std::array words{word(1, 1), word(1, 1)};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (auto& w : words) w.found_inf = 1, w.grad_norm = nan;
  EXPECT_TRUE(decide(words).skip);
  EXPECT_FALSE(decide(words).divergent);
}

TEST(decision, C35_a_loss_that_is_not_finite_skips_too_and_names_its_rank) {
  std::array words{word(1, 1), word(std::numeric_limits<double>::infinity(), 1), word(1, 1)};
  const auto d = decide(words);
  EXPECT_TRUE(d.skip && d.bad_loss);
  EXPECT_FALSE(d.divergent);
  EXPECT_EQ(d.not_finite, (std::vector{rank_id{1}}));
}

TEST(decision, C35_ranks_that_saw_it_in_their_own_gradients_are_named) {
  std::array words{word(1, 1), word(1, 1, flag_not_finite), word(1, 1)};
  for (auto& w : words) w.found_inf = 1;
  EXPECT_EQ(decide(words).not_finite, (std::vector{rank_id{1}}));
  EXPECT_FALSE(decide(words).bad_loss);
}

TEST(decision, C35_the_policy_leaves_an_iteration_unless_the_loss_scaler_can_answer) {
  decision overflow;
  overflow.skip = true;
  decision bad = overflow;
  bad.bad_loss = true;
  using enum non_finite_policy;
  for (const auto policy : {rollback, stop}) {
    EXPECT_FALSE(leaves_iteration({}, policy, amp_mode::off, 1));
    EXPECT_TRUE(leaves_iteration(overflow, policy, amp_mode::off, 1));
    EXPECT_TRUE(leaves_iteration(overflow, policy, amp_mode::bf16, 1));
    EXPECT_FALSE(leaves_iteration(overflow, policy, amp_mode::fp16, 65536));
    EXPECT_TRUE(leaves_iteration(overflow, policy, amp_mode::fp16, 1)) << "no scale is left";
    EXPECT_TRUE(leaves_iteration(bad, policy, amp_mode::fp16, 65536));
  }
  EXPECT_FALSE(leaves_iteration(bad, skip, amp_mode::off, 1));
}

TEST(decision, ranks_that_hold_different_gradients_are_noticed) {
  std::array words{word(1, 1), word(1, 1)};
  words[1].grad_norm = std::nextafter(2.5, 3.0);
  EXPECT_TRUE(decide(words).divergent);
  words[1] = word(1, 1);
  words[1].found_inf = 1;
  EXPECT_TRUE(decide(words).divergent);
}

TEST(scaler, grows_after_the_interval_and_backs_off_at_once) {
  scaler_state s{1024, 0};
  s = update_scaler(s, false, 3);
  s = update_scaler(s, false, 3);
  EXPECT_EQ(s, (scaler_state{1024, 2}));
  s = update_scaler(s, false, 3);
  EXPECT_EQ(s, (scaler_state{2048, 0}));
  s = update_scaler(s, false, 3);
  s = update_scaler(s, true, 3);
  EXPECT_EQ(s, (scaler_state{1024, 0}));
}

TEST(scaler, a_scale_at_the_end_of_float_stays) {
  const double most = std::ldexp(1.0, 127);
  EXPECT_EQ(update_scaler({most, 0}, false, 1), (scaler_state{most, 0}));
}

join_word state(char digest, bool kept, std::uint64_t iteration = 5) {
  join_word w{iteration, kept ? 1U : 0U, {}};
  std::fill(std::begin(w.digest), std::end(w.digest), digest);
  return w;
}
std::string odd(const std::vector<join_word>& words) {
  return to_list(odd_ranks(words));
}

TEST(digests, equal_ones_leave_nobody_odd) {
  EXPECT_EQ(odd({state('a', true), state('a', false), state('a', false)}), "");
}
TEST(digests, a_newcomer_that_differs_from_the_one_survivor_is_odd) {
  EXPECT_EQ(odd({state('a', true), state('b', false), state('b', false)}), "1,2");
}
TEST(digests, the_minority_of_the_survivors_is_odd) {
  EXPECT_EQ(odd({state('a', true), state('b', true), state('a', true), state('b', false)}), "1,3");
}
TEST(digests, survivors_that_disagree_evenly_are_all_odd) {
  EXPECT_EQ(odd({state('a', true), state('b', true)}), "0,1");
}
TEST(digests, an_other_iteration_is_odd_whatever_the_digest) {
  EXPECT_EQ(odd({state('a', false), state('a', false, 6), state('a', false)}), "1");
}

TEST(decision, a_window_is_left_out_by_all_or_by_nobody) {
  std::vector<control_word> words(2);
  for (auto& word : words) word.flags = flag_left_out;
  const auto together = decide(words);
  EXPECT_TRUE(together.left_out);
  EXPECT_TRUE(together.skip);
  EXPECT_FALSE(together.divergent);
  words[1].flags = flag_stop;
  EXPECT_TRUE(decide(words).divergent);
}

TEST(keys, grow_from_join_to_decision_to_evaluation_to_the_next_decision) {
  EXPECT_LT(join_key(), decision_key(iteration_id{1}));
  EXPECT_LT(decision_key(iteration_id{1}), evaluation_key(iteration_id{1}));
  EXPECT_LT(evaluation_key(iteration_id{1}), decision_key(iteration_id{2}));
}

TEST(schedule, warms_up_then_follows_its_kind) {
  scenario s;
  s.train.lr = 1.0;
  s.train.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(s, 0, 104), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3, 104), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 90, 104), 1.0);
  s.train.schedule = schedule_kind::cosine;
  s.train.min_lr = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(s, 4, 104), 1.0);
  EXPECT_NEAR(learning_rate(s, 54, 104), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(s, 104, 104), 0.1, 1e-12);
  s.train.schedule = schedule_kind::step;
  s.train.decay_every = 10;
  s.train.decay_factor = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(s, 13, 104), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 14, 104), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 34, 104), 0.125);
}

TEST(flat_math, unscaling_finds_what_is_not_finite_and_measures_the_rest) {
  std::vector<float> g(16, 0.0F);
  g[3] = 6;
  g[12] = 8;
  auto measured = unscale_and_measure(g, 0.5F);
  EXPECT_FALSE(measured.found_inf);
  EXPECT_DOUBLE_EQ(measured.norm, 5.0);
  EXPECT_EQ(g[3], 3.0F);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto copy = g;
    copy[15] = bad;
    EXPECT_TRUE(unscale_and_measure(copy, 1.0F).found_inf);
  }
  std::vector<float> largest(16, std::numeric_limits<float>::max());
  EXPECT_FALSE(unscale_and_measure(largest, 1.0F).found_inf);
}

TEST(flat_math, clipping_never_enlarges) {
  EXPECT_EQ(clip_factor(100, 0), 1.0F);
  EXPECT_EQ(clip_factor(0.5, 1), 1.0F);
  EXPECT_NEAR(clip_factor(4, 1), 0.25, 1e-6);
}

state_map three_parameters() {
  return map_state({{"a", {100}}, {"b", {3}}, {"c", {64}}},
                   {{"mean", {5}},
                    {"count", {}, dtype::i64, buffer_kind::max},
                    {"mask", {2}, dtype::boolean, buffer_kind::constant}},
                   optimizer_kind::adamw);
}

TEST(state_map, is_a_valid_layout_with_flat_ranges_of_one_indexing) {
  const auto map = three_parameters();
  ASSERT_TRUE(validate(map.layout));
  EXPECT_EQ(map.parameters, (std::vector<std::uint64_t>{0, 448, 512}));
  EXPECT_EQ(map.parameter_bytes, 768U);
  const auto offset_of = [&](const std::string& name) {
    for (const auto& t : map.layout.tensors) {
      if (t.name == name) return t.offset_bytes;
    }
    return ~std::uint64_t{0};
  };
  for (const auto* kind : {".exp_avg", ".exp_avg_sq"}) {
    const auto base = offset_of(std::string{"optim.a"} + kind);
    EXPECT_EQ(offset_of(std::string{"optim.b"} + kind) - base, 448U);
    EXPECT_EQ(offset_of(std::string{"optim.c"} + kind) - base, 512U);
  }
  EXPECT_EQ(map.means.offset_bytes, 768U);
  EXPECT_EQ(map.means.count, 16U);  // 5 floats, to the end of their cache line
  EXPECT_EQ(map.counters.count, 8U);
  EXPECT_EQ(map.bucket_bytes, 768U + 64 + 64);
}

TEST(bucket_plan, buckets_run_from_the_last_parameter_to_the_first_without_a_gap) {
  const auto map = three_parameters();
  for (const std::uint64_t most : {1U, 64U, 320U, 321U, 767U, 768U, 100000U}) {
    const auto plan = plan_buckets(map, most);
    std::uint64_t end = map.parameter_bytes;
    std::size_t parameters = 0;
    for (std::size_t b = 0; b < plan.regions.size(); ++b) {
      const auto& region = plan.regions[b];
      ASSERT_EQ(region.offset_bytes + region.count * 4, end);
      ASSERT_TRUE(region.count * 4 <= most || plan.parameters[b] == 1);
      end = region.offset_bytes;
      parameters += plan.parameters[b];
    }
    EXPECT_EQ(end, 0U);
    EXPECT_EQ(parameters, 3U);
  }
  EXPECT_EQ(plan_buckets(map, 320).bucket_of, (std::vector<std::size_t>{1, 0, 0}));
}

TEST(options, C20_a_state_of_other_options_is_refused_by_name) {
  const auto map = three_parameters();
  scenario s;
  std::vector<double> memory(map.layout.arena_bytes / sizeof(double));
  const state_view state{map, reinterpret_cast<std::byte*>(memory.data())};
  write_initial_scalars(state, s);
  EXPECT_TRUE(check_options(state, s));
  const auto expect_refused = [&](const std::string& name, auto change) {
    auto other = s;
    change(other);
    const auto checked = check_options(state, other);
    ASSERT_FALSE(checked) << name;
    EXPECT_NE(checked.error().message.find(name), std::string::npos);
  };
  expect_refused("optim.lr", [](scenario& o) { o.train.lr *= 1.0000001; });
  expect_refused("optim.momentum", [](scenario& o) { o.train.momentum = 0.5; });
  expect_refused("optim.nesterov", [](scenario& o) { o.train.nesterov = true; });
  expect_refused("optim.beta2", [](scenario& o) { o.train.beta2 = 0.99; });
  expect_refused("train.micro_batch", [](scenario& o) { o.train.micro_batch = 16; });
  expect_refused("train.seed", [](scenario& o) { o.run.seed = 2; });
}

}  // namespace
}  // namespace ftrt::training
