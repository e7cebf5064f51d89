#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <runtime/training/flat_math.hpp>
#include <runtime/training/program_impl.hpp>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>

#include "rig.hpp"

namespace ftrt::testing {
namespace {

using protocol::state_role;
using training::real;
using training::whole;

training::state_view state_of(lone_rank& rank) {
  return {rank.program.get().map, rank.memories.state.data()};
}
std::vector<float> gradients_of(lone_rank& rank) {
  std::vector<float> g(rank.program.get().map.parameter_bytes / sizeof(float));
  std::memcpy(g.data(), rank.memories.bucket.data(), g.size() * sizeof(float));
  return g;
}
std::vector<storage::progress_record> records_of(lone_rank& rank, storage::record_kind kind) {
  storage::progress_reader reader{rank.memories.progress};
  std::vector<storage::progress_record> records;
  while (auto r = reader.next()) {
    if (r->kind == kind) records.push_back(*r);
  }
  return records;
}

scenario plain() {
  auto s = tiny_mlp();
  s.model.dropout = 0;
  s.train.momentum = 0;
  s.train.evaluate_every_epochs = 0;
  return s;
}

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
  s.data.path = std::string{std::getenv("FTRT_SOURCE")} + "/data/mnist";
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

// A rank's newest snapshot as a checkpoint on disk.
void save(lone_rank& rank, const std::filesystem::path& folder) {
  const auto& ready = rank.snapshots.back();
  auto held = storage::held_snapshot::hold(rank.memories.snapshots,
                                           rank.program.layout().arena_bytes, ready.slot);
  ASSERT_TRUE(held);
  storage::checkpoint_manifest header;
  header.run_id = "test";
  header.branch = branch_id{1};
  header.generation = generation_id{1};
  header.iteration = ready.iteration;
  header.world_size = 1;
  header.layout = rank.program.layout();
  const storage::checkpoint_part part{0, rank_id{0}, incarnation_id{1}, held->content()};
  const auto written = storage::write_checkpoint(folder, header, {&part, 1});
  ASSERT_TRUE(written) << written.error().describe();
}

class checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "ftrt-state-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Trains to iteration `half`, saves, loads into a fresh rank, trains on to the end. The first
  // half ends as one does that was stopped: no scenario differs.
  protocol::finished in_two_halves(const scenario& s, std::uint64_t half,
                                   std::vector<storage::progress_record>* records = nullptr) {
    auto program = make_program(s);
    lone_rank first{*program};
    EXPECT_TRUE(first.join(state_role::initial, iteration_id{0}));
    first.comm->stop_at(half, [&] { first.worker.request_stop(); });
    EXPECT_EQ(first.finish().iteration, iteration_id{half});
    save(first, folder_ / "half");

    auto again = make_program(s);
    lone_rank second{*again};
    const auto joined =
        second.join(state_role::load_checkpoint, iteration_id{half}, (folder_ / "half").string());
    EXPECT_TRUE(joined) << joined.error().describe();
    const auto report = second.finish();
    if (records != nullptr) *records = records_of(second, storage::record_kind::iteration);
    return report;
  }
  std::filesystem::path folder_;
};

TEST_F(checkpoints, a_run_in_two_halves_ends_with_the_same_bits) {
  std::uint64_t at = 0;
  for (const auto& s : {tiny_mlp(), tiny_cnn()}) {
    const auto expected = train_alone(s);
    for (const std::uint64_t half : {1U, 4U, 6U}) {  // in an epoch, at its end
      SCOPED_TRACE(std::to_string(half));
      folder_ /= std::to_string(++at);
      std::filesystem::create_directories(folder_);
      const auto got = in_two_halves(s, half);
      EXPECT_EQ(got.weights_digest, expected.weights_digest);
      EXPECT_EQ(got.test_accuracy, expected.test_accuracy);
    }
  }
}

// C22: the scaler's next 500 scales equal an uninterrupted run's.
TEST_F(checkpoints, C22_the_loss_scale_goes_on_as_if_nothing_had_been) {
  auto s = plain();
  s.train.amp = amp_mode::fp16;
  s.train.init_scale = std::ldexp(1.0, 30);
  s.train.scale_growth_interval = 7;
  s.train.epochs = 130;
  auto program = make_program(s);
  lone_rank whole_run{*program};
  ASSERT_TRUE(whole_run.join(state_role::initial, iteration_id{0}));
  whole_run.finish();
  const auto expected = records_of(whole_run, storage::record_kind::iteration);
  std::vector<storage::progress_record> got;
  in_two_halves(s, 18, &got);
  ASSERT_GE(got.size(), 500U);
  bool changes = false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto& other = expected[i + 18];
    ASSERT_EQ(got[i].iteration, other.iteration);
    ASSERT_EQ(got[i].loss_scale, other.loss_scale);
    ASSERT_EQ(got[i].skipped, other.skipped);
    ASSERT_EQ(got[i].loss, other.loss);
    changes = changes || got[i].loss_scale != got[0].loss_scale;
  }
  EXPECT_TRUE(changes);
}

TEST_F(checkpoints, C20_other_options_are_refused_and_leave_the_rank_stateless) {
  auto s = tiny_mlp();
  in_two_halves(s, 4);
  s.train.lr = 0.2;
  auto program = make_program(s);
  lone_rank rank{*program};
  const auto joined =
      rank.join(state_role::load_checkpoint, iteration_id{4}, (folder_ / "half").string());
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("optim.lr"), std::string::npos);
  EXPECT_FALSE(rank.worker.has_state());
}

// C20: repeated loads grew memory.
TEST_F(checkpoints, C20_a_hundred_loads_leave_memory_flat) {
  const auto s = tiny_cnn();
  in_two_halves(s, 4);
  auto program = make_program(s);
  lone_rank rank{*program};
  const auto load = [&] {
    ASSERT_TRUE(
        rank.join(state_role::load_checkpoint, iteration_id{4}, (folder_ / "half").string()));
  };
  const auto resident_pages = [] {
    std::ifstream statm("/proc/self/statm");
    long total = 0;
    long resident = 0;
    statm >> total >> resident;
    return resident;
  };
  for (int i = 0; i < 20; ++i) load();
  const auto before = resident_pages();
  for (int i = 0; i < 100; ++i) load();
  EXPECT_LT(resident_pages() - before, 256);
}

TEST_F(checkpoints, a_checkpoint_of_another_iteration_is_refused) {
  const auto s = tiny_mlp();
  in_two_halves(s, 4);
  auto program = make_program(s);
  lone_rank rank{*program};
  EXPECT_FALSE(
      rank.join(state_role::load_checkpoint, iteration_id{5}, (folder_ / "half").string()));
  EXPECT_FALSE(rank.worker.has_state());
}

}  // namespace
}  // namespace ftrt::testing
