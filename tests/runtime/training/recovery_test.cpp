#include <stdlib.h>

#include "rank_group.hpp"

namespace ftrt::testing {
namespace {

using namespace std::chrono_literals;

class recovery : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "ftrt-training-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs `values` on so many ranks with and without faults; both must end with the same bits.
  void expect_same_weights(scenario values, std::uint32_t ranks, std::uint64_t seed,
                           rank_group::fault kind, int count, std::chrono::microseconds mean) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    values.cluster.ranks = ranks;
    auto program = make_program(values);
    program->warm_up();
    const auto expected = rank_group{*program, ranks}.run();
    rank_group disturbed{*program, ranks, folder_ / std::to_string(seed)};
    std::filesystem::create_directories(folder_ / std::to_string(seed));
    disturbed.faults(seed, count, mean, kind);
    const auto got = disturbed.run();
    EXPECT_EQ(got.weights_digest, expected.weights_digest);
    EXPECT_EQ(got.iteration, expected.iteration);
    EXPECT_EQ(got.optimizer_steps, expected.optimizer_steps);
    EXPECT_EQ(got.test_accuracy, expected.test_accuracy);
    generations_ += disturbed.generations();
    applied_prepared_ += disturbed.applied_prepared();
    rollbacks_ += disturbed.rollbacks();
    received_ += disturbed.received();
  }

  std::filesystem::path folder_;
  std::uint64_t generations_ = 0;
  int applied_prepared_ = 0;
  int rollbacks_ = 0;
  int received_ = 0;
};

scenario longer(scenario values, std::uint64_t epochs) {
  values.train.epochs = epochs;
  return values;
}

TEST_F(recovery, two_ranks_end_with_one_digest_and_again_with_the_same) {
  auto program = make_program(tiny_cnn());
  const auto first = rank_group{*program, 2}.run();
  EXPECT_EQ(rank_group(*program, 2).run().weights_digest, first.weights_digest);
}

TEST_F(recovery, ranks_aborted_at_random_moments_end_with_the_same_weights) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    expect_same_weights(longer(tiny_mlp(), 60), 2, seed, rank_group::fault::abort, 30, 700us);
  }
  RecordProperty("generations", static_cast<int>(generations_));
  RecordProperty("applied_prepared", applied_prepared_);
  EXPECT_GT(generations_, 60U);
}

TEST_F(recovery, a_cnn_aborted_at_random_moments_ends_with_the_same_weights) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_same_weights(longer(tiny_cnn(), 20), 3, seed, rank_group::fault::abort, 20, 2ms);
  }
  EXPECT_GT(generations_, 20U);
}

TEST_F(recovery, ranks_killed_at_random_moments_are_replaced_and_weights_match) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    expect_same_weights(longer(tiny_cnn(), 20), 3, seed, rank_group::fault::kill_one, 8, 4ms);
  }
  EXPECT_GT(received_, 10);
}

TEST_F(recovery, all_ranks_killed_go_on_from_a_checkpoint_and_weights_match) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_same_weights(longer(tiny_mlp(), 40), 2, seed, rank_group::fault::kill_all, 4, 8ms);
  }
  EXPECT_GT(rollbacks_, 4);
}

TEST_F(recovery, any_faults_in_any_order_end_with_the_same_weights) {
  auto values = longer(tiny_mlp(), 40);
  values.train.optimizer = optimizer_kind::adamw;
  values.train.lr = 0.01;
  values.train.amp = amp_mode::bf16;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    expect_same_weights(values, 4, seed, rank_group::fault::any, 10, 5ms);
  }
  EXPECT_GT(generations_, 15U);
}

}  // namespace
}  // namespace ftrt::testing
