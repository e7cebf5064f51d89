#include <algorithm>
#include <cmath>
#include <runtime/training/flat_math.hpp>

#include "inspect.hpp"

namespace ftrt::testing {
namespace {

using protocol::state_role;

// C26: accumulated gradients equal those of the concatenated batch; iteration 4 is the short
// window.
TEST(numeric, C26_accumulation_equals_the_concatenated_batch_in_short_windows_too) {
  for (const std::uint64_t iteration : {1U, 4U}) {
    const auto reduced = [iteration](std::uint64_t micro_batch) {
      auto s = plain();
      s.train.lr = 0;  // the weights stay: only the last window differs
      s.train.micro_batch = micro_batch;
      s.train.max_iterations = iteration;
      auto program = make_program(s);
      lone_rank rank{*program};
      EXPECT_TRUE(rank.join(state_role::initial, iteration_id{0}));
      rank.finish();
      return gradients_of(rank);
    };
    const auto whole_batch = reduced(16);
    for (const std::uint64_t micro_batch : {1U, 3U, 4U, 5U}) {
      const auto parts = reduced(micro_batch);
      ASSERT_EQ(parts.size(), whole_batch.size());
      double largest = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        ASSERT_NEAR(parts[i], whole_batch[i], 1e-6);
        largest = std::max(largest, std::abs(static_cast<double>(parts[i])));
      }
      EXPECT_GT(largest, 1e-3);
    }
  }
}

TEST(numeric, the_loss_that_is_reported_is_the_mean_over_the_window) {
  auto s = plain();
  s.train.lr = 0;
  s.train.epochs = 1;
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.finish();
  const auto records = records_of(rank, storage::record_kind::iteration);
  ASSERT_EQ(records.size(), 4U);
  for (const auto& r : records) EXPECT_NEAR(r.loss, std::log(4.0), 0.7);
  EXPECT_EQ(records[3].samples, 4U);
  EXPECT_EQ(records[0].samples, 16U);
}

// C30: the clip sees unscaled gradients; a skipped step moves neither the schedule nor the step.
TEST(numeric, C30_a_skipped_step_moves_neither_schedule_nor_step_nor_weights) {
  auto s = plain();
  s.train.amp = amp_mode::fp16;
  s.train.init_scale = std::ldexp(1.0, 40);  // overflows float16 for certain
  s.train.schedule = schedule_kind::cosine;
  s.train.warmup_steps = 3;
  s.train.clip_norm = 0.5;
  s.train.epochs = 20;
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  const auto report = rank.finish();
  const auto records = records_of(rank, storage::record_kind::iteration);
  ASSERT_EQ(records.size(), 80U);
  std::uint64_t step = 0;
  std::uint64_t skipped = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& r = records[i];
    skipped += r.skipped;
    step += r.skipped != 0 ? 0U : 1U;
    ASSERT_EQ(r.optimizer_step, step);
    if (i + 1 < records.size() && r.skipped != 0) {
      ASSERT_EQ(records[i + 1].lr, r.lr);
      ASSERT_EQ(records[i + 1].loss_scale, r.loss_scale / 2);
    }
    if (r.skipped == 0) {
      ASSERT_LT(r.grad_norm, 20.0);  // unscaled: the scale is 2^20 and more
    }
  }
  EXPECT_GT(skipped, 10U);
  EXPECT_GT(step, 30U);
  EXPECT_EQ(report.optimizer_steps, step);
  for (const float p : state_of(rank).parameters()) ASSERT_TRUE(std::isfinite(p));
}

TEST(numeric, mixed_precision_learns_as_full_precision_does) {
  auto s = tiny_mlp();
  s.data.samples = 512;
  s.data.test_samples = 200;
  s.train.epochs = 6;
  std::vector<double> accuracies;
  for (const auto amp : {amp_mode::off, amp_mode::bf16, amp_mode::fp16}) {
    s.train.amp = amp;
    accuracies.push_back(train_alone(s).test_accuracy);
    EXPECT_GT(accuracies.back(), 0.9) << static_cast<int>(amp);
  }
  auto conv = tiny_cnn();
  for (const auto amp : {amp_mode::bf16, amp_mode::fp16}) {
    conv.train.amp = amp;
    EXPECT_TRUE(std::isfinite(train_alone(conv).train_loss));
  }
}

TEST(numeric, every_optimizer_and_option_lowers_the_loss) {
  auto s = tiny_mlp();
  s.data.samples = 256;
  s.train.epochs = 4;
  s.train.nesterov = true;
  s.train.weight_decay = 1e-4;
  s.train.clip_norm = 1.0;
  EXPECT_LT(train_alone(s).train_loss, 0.7);
  s.train.optimizer = optimizer_kind::adamw;
  s.train.lr = 0.01;
  EXPECT_LT(train_alone(s).train_loss, 0.7);
}

TEST(numeric, gaps_between_tensors_stay_zero) {
  for (const auto kind : {optimizer_kind::sgd, optimizer_kind::adamw}) {
    auto s = tiny_cnn();
    s.train.optimizer = kind;
    s.train.weight_decay = 0.1;
    auto program = make_program(s);
    lone_rank rank{*program};
    ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
    rank.finish();
    std::uint64_t end = 0;
    for (const auto& t : program->layout().tensors) {
      for (auto at = end; at < t.offset_bytes; ++at) {
        ASSERT_EQ(rank.memories.state.data()[at], std::byte{0}) << "before " << t.name;
      }
      end = t.offset_bytes + t.size_bytes;
    }
  }
}

TEST(numeric, a_constant_buffer_and_running_statistics_follow_their_policy) {
  auto s = tiny_cnn();
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.finish();
  for (const auto& t : program->layout().tensors) {
    if (t.section != tensor_section::buffer) continue;
    const auto* at = rank.memories.state.data() + t.offset_bytes;
    if (t.type == dtype::i64) {
      // 2 epochs of 4 + 4 + 4 + 1 micro-batches
      EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(at), 26) << t.name;
    } else {
      const float* v = reinterpret_cast<const float*>(at);
      EXPECT_NE(v[0], t.name.ends_with("running_var") ? 1.0F : 0.0F) << t.name;
    }
  }
}

}  // namespace
}  // namespace ftrt::testing
