#include <schemas/random.hpp>
#include <tests/support/temporary_folder.hpp>

#include "rank_group.hpp"

namespace ftrt::testing {
namespace {

class recovery : public ::testing::Test {
 protected:
  // Runs `values` on so many ranks with and without faults; both must end with the same bits.
  void expect_same_weights(scenario values, std::uint32_t ranks, std::uint64_t seed,
                           rank_group::fault kind, int count) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    values.cluster.ranks = ranks;
    auto program = make_program(values);
    program->warm_up();
    const auto expected = rank_group{*program, ranks}.run();
    rank_group disturbed{*program, ranks, folder_ / std::to_string(seed)};
    std::filesystem::create_directories(folder_ / std::to_string(seed));
    disturbed.faults(seed, count, kind);
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

  const test::temporary_folder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
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
    expect_same_weights(longer(tiny_mlp(), 60), 2, seed, rank_group::fault::abort, 30);
  }
  EXPECT_GT(generations_, 60U);
}

TEST_F(recovery, a_cnn_aborted_at_random_moments_ends_with_the_same_weights) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_same_weights(longer(tiny_cnn(), 20), 3, seed, rank_group::fault::abort, 20);
  }
  EXPECT_GT(generations_, 20U);
}

TEST_F(recovery, ranks_killed_at_random_moments_are_replaced_and_weights_match) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    expect_same_weights(longer(tiny_cnn(), 20), 3, seed, rank_group::fault::kill_one, 8);
  }
  EXPECT_GT(received_, 10);
}

TEST_F(recovery, all_ranks_killed_go_on_from_a_checkpoint_and_weights_match) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_same_weights(longer(tiny_mlp(), 40), 2, seed, rank_group::fault::kill_all, 4);
  }
  EXPECT_GT(rollbacks_, 4);
}

TEST_F(recovery, any_faults_in_any_order_end_with_the_same_weights) {
  auto values = longer(tiny_mlp(), 40);
  values.train.optimizer = optimizer_kind::adamw;
  values.train.lr = 0.01;
  values.train.amp = amp_mode::bf16;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    expect_same_weights(values, 4, seed, rank_group::fault::any, 10);
  }
  EXPECT_GT(generations_, 15U);
}

// Every exchange of a run, one after the other: the decisions, the evaluations, the join itself.
TEST_F(recovery, a_word_lost_or_a_death_around_any_exchange_changes_no_weight) {
  auto values = tiny_cnn();
  values.cluster.ranks = 2;
  auto program = make_program(values);
  program->warm_up();
  const auto expected = rank_group{*program, 2}.run();
  const auto exchanges = program->total_iterations() + values.train.epochs + 1;
  for (const auto how :
       {sabotage::mode::lose_answer, sabotage::mode::die_after, sabotage::mode::die_before}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (std::uint64_t nth = 1; nth <= exchanges; ++nth) {
        SCOPED_TRACE("mode " + std::to_string(static_cast<int>(how)) + ", rank " +
                     std::to_string(rank) + ", exchange " + std::to_string(nth));
        rank_group group{*program, 2};
        group.sabotages([&](std::uint64_t generation) {
          return generation == 1 ? std::optional{sabotage{1U << rank, nth, how}} : std::nullopt;
        });
        const auto got = group.run();
        ASSERT_EQ(got.weights_digest, expected.weights_digest);
        ASSERT_EQ(got.test_accuracy, expected.test_accuracy);
        ASSERT_EQ(group.generations(), 2U);
        applied_prepared_ += group.applied_prepared();
        received_ += group.received();
      }
    }
  }
  EXPECT_GE(applied_prepared_, 2 * static_cast<int>(program->total_iterations()));
  EXPECT_GT(received_, 2 * static_cast<int>(exchanges));
}

TEST_F(recovery, a_rank_joins_two_hundred_generations) {
  auto values = longer(tiny_cnn(), 60);
  values.cluster.ranks = 2;
  auto program = make_program(values);
  program->warm_up();
  const auto expected = rank_group{*program, 2}.run();
  rank_group group{*program, 2};
  group.sabotages([](std::uint64_t generation) {
    const auto word = data::hash_of(17, generation);
    return generation > 200 ? std::nullopt
                            : std::optional{sabotage{1U << (word % 2), 1 + (word >> 8) % 3,
                                                     sabotage::mode::lose_answer}};
  });
  EXPECT_EQ(group.run().weights_digest, expected.weights_digest);
  EXPECT_EQ(group.generations(), 201U);
  EXPECT_EQ(group.rollbacks(), 0);
}

}  // namespace
}  // namespace ftrt::testing
