#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <tests/support/environment.hpp>

#include "inspect.hpp"

namespace ftrt::testing {
namespace {

using protocol::state_role;

TEST(program, warming_up_leaves_no_trace) {
  auto warm = make_program(tiny_cnn());
  std::vector<std::byte> before(warm->get().initial.data(),
                                warm->get().initial.data() + warm->get().initial.size());
  warm->warm_up();
  EXPECT_EQ(std::memcmp(before.data(), warm->get().initial.data(), before.size()), 0);
  lone_rank rank{*warm};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  EXPECT_EQ(rank.finish().weights_digest, train_alone(tiny_cnn()).weights_digest);
}

std::string first_fault(const scenario& s) {
  auto made = training_program::create(s);
  return made ? "" : made.error().front().describe();
}

TEST(program, C32_a_model_that_does_not_fit_the_data_is_a_diagnostic) {
  scenario s;
  s.data.path = (test::source_tree() / "data/mnist").string();
  s.model.layers = {100, 10};
  EXPECT_NE(first_fault(s).find("784"), std::string::npos);
  s.model.layers = {784, 5};
  EXPECT_NE(first_fault(s).find("at least 10"), std::string::npos);
  s.model.kind = "transformer";
  EXPECT_NE(first_fault(s).find("cnn, mlp"), std::string::npos);
  s.model.kind = "cnn";
  s.model.channels = {4, 4, 4, 4, 4, 4};
  EXPECT_NE(first_fault(s).find("more stages"), std::string::npos);
}

// Called in each evaluation of an odd_model.
std::function<void()> when_evaluated;

// A user's model: one linear layer that does what the test asks for.
class odd_model final : public model {
 public:
  explicit odd_model(std::string fault) : fault_(std::move(fault)) {
    weight_ = at::full({4, 784}, 0.01);
    if (fault_ == "float64") weight_ = weight_.to(at::kDouble);
    weight_.set_requires_grad(true);
    unused_ = at::ones({3});
    unused_.set_requires_grad(true);
  }
  std::vector<named_parameter> parameters() override {
    return {{"weight", weight_}, {fault_ == "twice" ? "weight" : "unused", unused_}};
  }
  at::Tensor loss_sum(const batch& samples) override {
    if (fault_ == "throws" && ++calls_ == 9) throw std::runtime_error("the model had enough");
    return at::linear(samples.inputs.flatten(1), weight_).square().sum();
  }
  evaluation_sums evaluate(const batch& samples) override {
    if (fault_ == "evaluate") throw std::runtime_error("no evaluation here");
    if (when_evaluated) when_evaluated();
    return {0, 0, samples.targets.size(0)};
  }

 private:
  std::string fault_;
  int calls_ = 0;
  at::Tensor weight_, unused_;
};

scenario with_fault(const std::string& fault) {
  auto s = tiny_mlp();
  register_model("odd_" + fault,
                 [fault](const scenario&) { return std::make_unique<odd_model>(fault); });
  s.model.kind = "odd_" + fault;
  s.model.layers.clear();
  s.data.kind = "synthetic";
  return s;
}

TEST(program, what_the_step_loop_cannot_carry_is_refused_by_name) {
  EXPECT_NE(first_fault(with_fault("float64")).find("'weight' must be a float32"),
            std::string::npos);
  EXPECT_NE(first_fault(with_fault("twice")).find("'weight' appears twice"), std::string::npos);
  EXPECT_NE(first_fault(with_fault("evaluate")).find("no evaluation here"), std::string::npos);
}

// The model's exception is no crash: the rank stands, and can go on where nothing was committed.
TEST(trainer, a_model_that_throws_is_reported_and_leaves_no_trace) {
  const auto expected = train_alone(with_fault("none"));
  auto program = make_program(with_fault("throws"));
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  auto outcome = rank.worker.train();
  const auto* failed = std::get_if<training_failed>(&outcome);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->iteration, iteration_id{3});
  EXPECT_EQ(failed->text, "the model had enough");
  const auto parked = rank.worker.park();
  EXPECT_EQ(parked.committed, iteration_id{2});
  EXPECT_EQ(parked.prepared, iteration_id{0});
  ASSERT_TRUE(rank.join(state_role::keep, iteration_id{2}));
  EXPECT_EQ(rank.finish().weights_digest, expected.weights_digest);
}

TEST(trainer, a_parameter_without_a_gradient_is_reduced_all_the_same_and_stays) {
  auto s = with_fault("none");
  s.train.bucket_bytes = 1;  // a bucket for each parameter
  s.train.max_iterations = 1;
  auto program = make_program(s);
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.finish();
  ASSERT_EQ(rank.comm->regions().size(), 2U);
  EXPECT_GT(rank.comm->regions()[0].offset_bytes, rank.comm->regions()[1].offset_bytes);
  const auto state = state_of(rank).parameters();
  EXPECT_EQ(state[rank.comm->regions()[0].offset_bytes / sizeof(float)], 1.0F);
}

TEST(trainer, a_role_that_does_not_fit_is_refused_and_changes_nothing) {
  auto program = make_program(tiny_mlp());
  lone_rank rank{*program};
  EXPECT_FALSE(rank.join(state_role::keep, iteration_id{0}));
  EXPECT_FALSE(rank.worker.has_state());
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  EXPECT_EQ(rank.join(state_role::keep, iteration_id{3}).error().code, error_code::refused);
  EXPECT_EQ(rank.join(state_role::apply_prepared, iteration_id{1}).error().code,
            error_code::refused);
  EXPECT_TRUE(rank.worker.has_state());
  EXPECT_EQ(rank.join(state_role::receive, iteration_id{0}).error().code,
            error_code::invalid_argument);
  EXPECT_FALSE(rank.worker.has_state());
}

TEST(trainer, the_stop_bit_ends_training_after_the_next_commit_with_a_final_snapshot) {
  auto program = make_program(tiny_mlp());
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.worker.request_stop();
  const auto report = rank.finish();
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.iteration, iteration_id{1});
  EXPECT_TRUE(std::isnan(report.test_accuracy));
  ASSERT_EQ(rank.snapshots.size(), 1U);
  EXPECT_TRUE(rank.snapshots[0].final);
}

// Asks for a stop while the first batch of an evaluation is done.
protocol::finished stopped_in_evaluation(const scenario& values, std::size_t& evaluations) {
  auto program = make_program(values);
  lone_rank rank{*program};
  EXPECT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  when_evaluated = [&] { rank.worker.request_stop(); };
  const auto report = rank.finish();
  when_evaluated = nullptr;
  EXPECT_TRUE(!rank.snapshots.empty() && rank.snapshots.back().final &&
              rank.snapshots.back().iteration == report.iteration);
  evaluations = records_of(rank, storage::record_kind::evaluation).size();
  return report;
}

TEST(trainer, C05_an_evaluation_is_given_up_for_a_stop) {
  auto values = with_fault("none");
  values.data.test_samples = 600;  // three batches
  std::size_t evaluations = 0;
  const auto early = stopped_in_evaluation(values, evaluations);
  EXPECT_TRUE(early.stopped);
  EXPECT_EQ(early.iteration, iteration_id{4}) << "where the first epoch ends, and not one more";
  EXPECT_TRUE(std::isnan(early.test_accuracy));
  EXPECT_EQ(evaluations, 0U);

  values.train.max_iterations = 4;
  const auto late = stopped_in_evaluation(values, evaluations);
  EXPECT_TRUE(late.stopped) << "all iterations are done, the last evaluation is not";
  EXPECT_EQ(late.weights_digest, early.weights_digest);
  EXPECT_EQ(train_alone(values).weights_digest, early.weights_digest);
}

// A run that leaves a window out stands where one stands that never came to it, but for its
// counters.
TEST(trainer, a_window_that_is_left_out_is_committed_without_a_step_and_changes_no_weight) {
  for (auto values : {tiny_mlp(), tiny_cnn()}) {
    values.train.amp = amp_mode::fp16;
    values.train.max_iterations = 2;
    const auto without = train_alone(values);
    values.train.max_iterations = 3;
    auto program = make_program(values);
    lone_rank rank{*program};
    rank.left_out = {iteration_id{3}};
    ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
    const auto report = rank.finish();
    EXPECT_EQ(report.iteration, iteration_id{3});
    EXPECT_EQ(report.optimizer_steps, 2U);
    EXPECT_EQ(report.weights_digest, without.weights_digest);
    EXPECT_EQ(report.train_loss, without.train_loss);
    const auto records = records_of(rank, storage::record_kind::iteration);
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[2].skipped, 1U);
    EXPECT_EQ(records[2].samples, 0U);
    EXPECT_EQ(records[2].loss_scale, records[1].loss_scale);
  }
}

TEST(trainer, snapshots_come_at_their_iterations_and_the_last_one_is_final) {
  auto program = make_program(tiny_mlp());  // 12 iterations, one every 5
  lone_rank rank{*program};
  ASSERT_TRUE(rank.join(state_role::initial, iteration_id{0}));
  rank.finish();
  ASSERT_EQ(rank.snapshots.size(), 3U);
  EXPECT_EQ(rank.snapshots[0].iteration, iteration_id{5});
  EXPECT_FALSE(rank.snapshots[1].final);
  EXPECT_EQ(rank.snapshots[2].iteration, iteration_id{12});
  EXPECT_TRUE(rank.snapshots[2].final);
  EXPECT_EQ(records_of(rank, storage::record_kind::evaluation).size(), 3U);
}

}  // namespace
}  // namespace ftrt::testing
