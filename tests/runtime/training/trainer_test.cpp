#include <cmath>
#include <fstream>
#include <functional>
#include <tests/support/environment.hpp>

#include "rig.hpp"

namespace ftrt::testing {
namespace {

using protocol::state_role;

TEST(trainer, learns_mnist_alone) {
  scenario s;
  s.cluster.ranks = 1;
  s.model.layers = {784, 64, 10};
  s.data.path = (test::source_tree() / "data/mnist").string();
  s.data.limit = 12800;
  s.train.lr = 0.1;
  s.train.momentum = 0.9;
  const auto report = train_alone(s);
  EXPECT_EQ(report.iteration, iteration_id{100});
  EXPECT_EQ(report.optimizer_steps, 100U);
  EXPECT_GT(report.test_accuracy, 0.88);
  EXPECT_LT(report.train_loss, 0.5);
}

TEST(trainer, two_runs_of_one_seed_end_with_the_same_bits) {
  for (const auto& values : {tiny_mlp(), tiny_cnn()}) {
    const auto first = train_alone(values);
    EXPECT_EQ(first.weights_digest, train_alone(values).weights_digest);
    auto other = values;
    other.run.seed += 1;
    EXPECT_NE(first.weights_digest, train_alone(other).weights_digest);
  }
}

TEST(trainer, a_rank_starts_no_thread) {
  train_alone(tiny_cnn());
  std::ifstream status("/proc/self/status");
  std::string line;
  bool found = false;
  while (std::getline(status, line)) {
    if (line.starts_with("Threads:")) {
      EXPECT_EQ(line, "Threads:\t1");
      found = true;
    }
  }
  EXPECT_TRUE(found);
}

protocol::finished uninterrupted(training_program& program,
                                 const std::vector<iteration_id>& left_out) {
  lone_rank rank{program};
  rank.left_out = left_out;
  EXPECT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  return rank.finish();
}

// Parks a rank that was interrupted, brings it back as control would and trains it to the end.
protocol::finished recover(lone_rank& rank) {
  const auto parked = rank.worker.park();
  if (parked.decided) {
    EXPECT_EQ(parked.prepared, parked.committed.next());
    EXPECT_TRUE(rank.join(state_role::apply_prepared, parked.prepared));
  } else {
    EXPECT_TRUE(rank.join(state_role::keep, parked.committed));
  }
  return rank.finish();
}

// Whether a run that `disturb` was done to is interrupted; then it must end as the undisturbed one.
bool is_interrupted(training_program& program, const std::vector<iteration_id>& left_out,
                    const std::function<void(lone_communicator&)>& disturb,
                    const protocol::finished& expected) {
  lone_rank rank{program};
  rank.left_out = left_out;
  EXPECT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  disturb(*rank.comm);
  const auto outcome = rank.worker.train();
  if (std::holds_alternative<training_finished>(outcome)) return false;
  EXPECT_TRUE(std::holds_alternative<training_interrupted>(outcome));
  const auto report = recover(rank);
  EXPECT_EQ(report.weights_digest, expected.weights_digest);
  EXPECT_EQ(report.optimizer_steps, expected.optimizer_steps);
  EXPECT_EQ(report.test_accuracy, expected.test_accuracy);
  return true;
}

// The heart of it: whatever collective an iteration is stopped in, and whether or not its word got
// out, the run ends with the weights of the undisturbed one.
void interrupt_everywhere(const scenario& values, const std::vector<iteration_id>& left_out = {}) {
  auto program = make_program(values);
  const auto expected = uninterrupted(*program, left_out);
  std::uint64_t tried = 0;
  for (const bool contribute : {false, true}) {
    for (std::uint64_t call = 3;; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + (contribute ? ", word sent" : ""));
      const auto fail = [&](lone_communicator& comm) { comm.fail_at(call, contribute); };
      if (!is_interrupted(*program, left_out, fail, expected)) break;
      if (::testing::Test::HasFailure()) return;
      ++tried;
    }
  }
  EXPECT_GT(tried, 40U);
}

// The same where a rank that computes finds its generation ended: before a micro-batch, at a
// gradient within its backward, before a batch of the test set.
void interrupt_at_every_look(const scenario& values) {
  auto program = make_program(values);
  const auto expected = uninterrupted(*program, {});
  for (std::uint64_t look = 1;; ++look) {
    SCOPED_TRACE("look " + std::to_string(look));
    const auto end = [&](lone_communicator& comm) { comm.end_at_look(look); };
    const bool interrupted = is_interrupted(*program, {}, end, expected);
    if (::testing::Test::HasFailure()) return;
    if (!interrupted) {
      EXPECT_GT(look, 40U);
      return;
    }
  }
}

TEST(trainer, windows_that_are_left_out_stay_so_wherever_the_run_is_interrupted) {
  interrupt_everywhere(tiny_cnn(), {iteration_id{3}, iteration_id{7}});
}

TEST(trainer, an_mlp_interrupted_at_any_collective_ends_with_the_same_weights) {
  interrupt_everywhere(tiny_mlp());
}

TEST(trainer, a_cnn_with_batch_norm_interrupted_at_any_collective_ends_with_the_same_weights) {
  interrupt_everywhere(tiny_cnn());
}

TEST(trainer, an_mlp_whose_generation_ends_while_it_computes_ends_with_the_same_weights) {
  interrupt_at_every_look(tiny_mlp());
}

TEST(trainer, a_cnn_whose_generation_ends_while_it_computes_ends_with_the_same_weights) {
  interrupt_at_every_look(tiny_cnn());
}

}  // namespace
}  // namespace ftrt::testing
