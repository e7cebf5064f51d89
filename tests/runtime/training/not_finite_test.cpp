#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <span>

#include "inspect.hpp"

// Losses and gradients that are NaN: what one rank does about them. And the digests that it writes.
namespace ftrt::testing {
namespace {

using protocol::state_role;

const protocol::injure nan_gradient{protocol::injury_kind::nan, protocol::injury_target::gradient,
                                    iteration_id{6}, 3};

TEST(not_finite, C35_under_skip_the_step_is_left_out_and_the_weights_stay_finite) {
  for (const auto amp : {amp_mode::off, amp_mode::bf16, amp_mode::fp16}) {
    auto s = plain();
    s.train.amp = amp;
    auto program = make_program(s);
    lone_rank rank{*program};
    ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
    rank.worker.injure(nan_gradient);
    const auto report = rank.finish();
    const auto records = records_of(rank, storage::record_kind::iteration);
    EXPECT_EQ(records.at(5).skipped, 1U);
    if (amp != amp_mode::fp16) {
      EXPECT_EQ(report.optimizer_steps + 1, records.size());
    }
    for (const float p : state_of(rank).parameters()) ASSERT_TRUE(std::isfinite(p));
  }
}

TEST(not_finite, C35_under_rollback_and_stop_the_iteration_is_left_as_it_was) {
  for (const auto policy : {non_finite_policy::rollback, non_finite_policy::stop}) {
    auto s = plain();
    s.train.on_non_finite = policy;
    auto program = make_program(s);
    lone_rank rank{*program};
    ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
    rank.worker.injure(nan_gradient);
    const auto outcome = rank.worker.train();
    const auto* left = std::get_if<training_not_finite>(&outcome);
    ASSERT_NE(left, nullptr);
    EXPECT_EQ(left->iteration, iteration_id{6});
    EXPECT_EQ(left->ranks, std::vector{rank_id{0}}) << "its own share";
    EXPECT_EQ(rank.worker.committed(), iteration_id{5});
    const auto parked = rank.worker.park();
    EXPECT_EQ(parked.committed, iteration_id{5});
    EXPECT_EQ(parked.prepared, iteration_id{0}) << "nobody may apply it";
    // The fault does not come again: what is kept goes on to the weights of a run without it.
    ASSERT_TRUE(rank.join(state_role::keep, iteration_id{5}));
    EXPECT_EQ(rank.finish().weights_digest, train_alone(s).weights_digest);
  }
}

TEST(not_finite, what_is_digested_before_an_iteration_is_left_is_the_last_committed_state) {
  auto s = tiny_cnn();  // with running means, which a forward pass moves
  s.train.amp = amp_mode::off;
  s.train.on_non_finite = non_finite_policy::rollback;
  auto program = make_program(s);
  lone_rank rank{*program};
  rank.digest_every = 1;
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.worker.injure(nan_gradient);
  ASSERT_TRUE(std::holds_alternative<training_not_finite>(rank.worker.train()));
  const auto digests = records_of(rank, storage::record_kind::digest);
  ASSERT_EQ(digests.size(), 6U);
  EXPECT_EQ(digests[4].iteration, 5U);
  EXPECT_EQ(digests[5].iteration, 5U);
  EXPECT_EQ(storage::digest_in(digests[4]), storage::digest_in(digests[5]));
}

TEST(not_finite, C35_under_rollback_an_overflow_is_still_the_loss_scalers) {
  auto s = plain();
  s.train.amp = amp_mode::fp16;
  s.train.on_non_finite = non_finite_policy::rollback;
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.worker.injure(nan_gradient);
  rank.finish();
  const auto records = records_of(rank, storage::record_kind::iteration);
  EXPECT_EQ(records.at(5).skipped, 1U);
  EXPECT_EQ(records.at(6).loss_scale, records.at(5).loss_scale / 2);
}

TEST(not_finite, C35_a_skipped_step_leaves_no_nan_in_running_means) {
  auto s = tiny_cnn();
  s.train.amp = amp_mode::off;
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  const auto weights = state_of(rank).parameters();
  std::ranges::fill(weights, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(rank.finish().optimizer_steps, 0U);
  for (const auto& t : program->layout().tensors) {
    if (t.section != tensor_section::buffer || t.type != dtype::f32) continue;
    const auto* values =
        reinterpret_cast<const float*>(rank.memories.state.data() + t.offset_bytes);
    const std::span all{values, t.size_bytes / sizeof(float)};
    EXPECT_TRUE(std::ranges::all_of(all, [](float v) { return std::isfinite(v); })) << t.name;
  }
}

TEST(not_finite, a_flipped_bit_changes_one_weight_after_its_commit_and_the_digest_tells) {
  std::array<std::vector<storage::progress_record>, 2> digests;
  for (const std::size_t hurt : {0U, 1U}) {
    auto program = make_program(plain());
    lone_rank rank{*program};
    rank.digest_every = 2;
    ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
    if (hurt == 1) {
      rank.worker.injure({protocol::injury_kind::flip_bit, protocol::injury_target::parameter,
                          iteration_id{5}, 1});
    }
    rank.finish();
    digests[hurt] = records_of(rank, storage::record_kind::digest);
  }
  // Iterations 2, 4, ..., 12, and once more at the end.
  ASSERT_EQ(digests[0].size(), 7U);
  ASSERT_EQ(digests[1].size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    const bool same = storage::digest_in(digests[0][i]) == storage::digest_in(digests[1][i]);
    EXPECT_EQ(same, digests[0][i].iteration < 5) << digests[0][i].iteration;
  }
}

// What was measured before the start against what the run then took: printed, not judged, since
// times differ from machine to machine.
TEST(not_finite, digests_are_as_rare_as_was_measured) {
  auto s = tiny_mlp();
  s.model.layers = {784, 128, 10};
  s.data.samples = 12800;
  s.train.global_batch = 128;
  s.train.micro_batch = 32;
  s.train.evaluate_every_epochs = 0;
  auto program = make_program(s);
  EXPECT_EQ(program->digest_every(), 0U) << "nothing was measured";
  program->warm_up();
  lone_rank rank{*program};
  rank.digest_every = program->digest_every();
  ASSERT_GT(rank.digest_every, 0U);
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.finish();
  std::int64_t steps_ns = 0;
  std::int64_t digests_ns = 0;
  for (const auto& r : records_of(rank, storage::record_kind::iteration)) steps_ns += r.step_ns;
  const auto digests = records_of(rank, storage::record_kind::digest);
  for (const auto& r : digests) digests_ns += r.step_ns;
  EXPECT_EQ(digests.size(), 300 / rank.digest_every + 1);
  std::cout << "a digest every " << rank.digest_every << " iterations: "
            << 100.0 * static_cast<double>(digests_ns) / static_cast<double>(steps_ns)
            << " % of the steps' time\n";
}

TEST(not_finite, without_an_injury_nothing_is_told) {
  auto s = plain();
  s.train.on_non_finite = non_finite_policy::rollback;
  const auto skipping = train_alone(plain()).weights_digest;
  EXPECT_EQ(train_alone(s).weights_digest, skipping) << "looking at gradients changes none";
}

}  // namespace
}  // namespace ftrt::testing
