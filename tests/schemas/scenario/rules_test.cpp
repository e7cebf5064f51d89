#include <tests/schemas/scenario/scenario_text.hpp>

namespace ftrt::testing_scenario {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(C32_batches, a_micro_batch_above_the_global_batch_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nglobal_batch = 16\nmicro_batch = 32"),
              ElementsAre("a.toml:3: train.micro_batch: expected at most global_batch = 16, found "
                          "32; a micro-batch is a part of the global batch"));
}

TEST(C32_batches, more_ranks_than_micro_batches_are_refused_with_the_arithmetic) {
  EXPECT_THAT(
      faults_before_valid("[train]\nglobal_batch = 100\nmicro_batch = 32\n[cluster]\nranks = 5"),
      ElementsAre(
          "a.toml:5: cluster.ranks: expected at most 4 ranks, found 5; a full window of 100 "
          "samples has ceil(100 / 32) = 4 micro-batches, and each rank needs one; "
          "train.micro_batch = 20 would do"));
}

TEST(C32_batches, as_many_ranks_as_micro_batches_are_fine) {
  EXPECT_THAT(
      faults_before_valid("[train]\nglobal_batch = 100\nmicro_batch = 32\n[cluster]\nranks = 4"),
      IsEmpty());
}

TEST(C32_batches, data_smaller_than_a_batch_is_refused_with_samples_batch_ranks_and_accumulation) {
  EXPECT_THAT(faults("[model]\nlayers = [784, 10]\n[data]\nkind = \"synthetic\"\nsamples = 100\n"),
              ElementsAre("a.toml:5: train.global_batch: expected at most the 100 training samples "
                          "(data.samples = 100), found 128; a full window of 128 samples has "
                          "128 / 32 = 4 micro-batches of 32, for 2 ranks"));
}

TEST(C32_batches, a_limit_below_a_batch_is_refused) {
  const auto lines = faults(valid, {"data.limit=127"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), HasSubstr("127 training samples (data.limit = 127), found 128"));
  EXPECT_THAT(faults(valid, {"data.limit=128"}), IsEmpty());
}

TEST(C37_models, an_mlp_without_layers_is_refused) {
  EXPECT_THAT(faults("[model]\nkind = \"mlp\"\n[data]\npath = \"/data\"\n"),
              ElementsAre("a.toml:1: model.layers: expected at least two widths for an mlp, input "
                          "and classes, found none; for MNIST: layers = [784, 128, 10]"));
}

TEST(C37_models, a_cnn_needs_channels_and_takes_no_layers) {
  EXPECT_THAT(faults("[model]\nkind = \"cnn\"\nlayers = [784, 10]\n[data]\npath = \"/data\"\n"),
              ElementsAre("a.toml:1: model.channels: expected at least one convolution for a cnn, "
                          "found none; for MNIST: channels = [16, 32]",
                          "a.toml:3: model.layers: expected this key only with kind = \"mlp\", "
                          "found [784, 10] with kind = \"cnn\""));
}

TEST(C37_models, batch_norm_is_of_the_cnn_only) {
  EXPECT_THAT(faults(valid, {"model.batch_norm=true"}),
              ElementsAre("--set: model.batch_norm: expected this key only with kind = \"cnn\", "
                          "found true with kind = \"mlp\""));
}

TEST(C37_optimizers, nesterov_without_momentum_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nnesterov = true"),
              ElementsAre("a.toml:2: train.nesterov: expected false, or a momentum greater than 0, "
                          "found true with momentum = 0.0"));
}

TEST(C37_optimizers, keys_of_another_optimizer_are_refused) {
  EXPECT_THAT(
      faults_before_valid("[train]\noptimizer = \"adamw\"\nmomentum = 0.9"),
      ElementsAre(
          "a.toml:3: train.momentum: expected this key only with optimizer = \"sgd\", found "
          "0.9 with optimizer = \"adamw\""));
  EXPECT_THAT(
      faults_before_valid("[train]\nbeta1 = 0.8"),
      ElementsAre("a.toml:2: train.beta1: expected this key only with optimizer = \"adamw\", found "
                  "0.8 with optimizer = \"sgd\""));
}

TEST(C37_schedules, a_step_schedule_without_steps_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nschedule = \"step\""),
              ElementsAre("a.toml:2: train.decay_every: expected at least 1 optimizer step for "
                          "schedule = \"step\", found 0"));
}

TEST(C37_schedules, a_rising_cosine_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nschedule = \"cosine\"\nlr = 0.01\nmin_lr = 0.1"),
              ElementsAre("a.toml:4: train.min_lr: expected at most lr = 0.01, found 0.1"));
}

TEST(C37_schedules, a_warm_up_that_never_ends_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nwarmup_steps = 100\nmax_iterations = 50"),
              ElementsAre("a.toml:2: train.warmup_steps: expected at most max_iterations = 50, "
                          "found 100; the warm-up would never end"));
}

TEST(C37_clusters, a_communicator_of_the_other_device_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[cluster]\ndevice = \"cuda\""),
      ElementsAre("a.toml:2: cluster.communicator: expected \"nccl\" for device = \"cuda\", "
                  "found \"shm\""));
  EXPECT_THAT(faults_before_valid("[cluster]\ndevice = \"cuda\"\ncommunicator = \"nccl\""),
              IsEmpty());
}

TEST(C37_supervision, a_shrinking_backoff_is_refused) {
  EXPECT_THAT(faults_before_valid("[supervision]\nbackoff_initial = \"1min\""),
              ElementsAre("a.toml:2: supervision.backoff_initial: expected at most backoff_max = "
                          "\"5s\", found \"1min\""));
}

TEST(C37_data, mnist_without_a_folder_is_refused) {
  EXPECT_THAT(faults("[model]\nlayers = [784, 10]\n"),
              ElementsAre("a.toml: data.path: expected the folder of the four IDX files, found "
                          "none; path = \"../data/mnist\""));
}

TEST(C37_data, a_folder_for_synthetic_data_is_refused) {
  EXPECT_THAT(
      faults(valid, {"data.kind=synthetic"}),
      ElementsAre("a.toml:4: data.path: expected this key only with kind = \"mnist\", found "
                  "\"/data/mnist\" with kind = \"synthetic\""));
}

std::vector<std::string> chaos_faults(const std::string& entry) {
  return faults(std::string{valid} + "[[chaos]]\n" + entry);
}

TEST(C37_chaos, a_fault_without_a_moment_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nrank = 1"),
              ElementsAre("a.toml:6: chaos[0].at_iteration: expected exactly one of at_iteration, "
                          "every_iterations, every, mtbf, found none of them"));
}

TEST(C37_chaos, a_fault_with_two_moments_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nrank = 1\nat_iteration = 3\nmtbf = \"10s\""),
              ElementsAre("a.toml:9: chaos[0].mtbf: expected exactly one of at_iteration, "
                          "every_iterations, every, mtbf, found at_iteration and mtbf"));
}

TEST(C37_chaos, a_rank_outside_the_world_is_refused_with_the_entry) {
  EXPECT_THAT(
      faults(std::string{valid} + "[[chaos]]\nkind = \"kill\"\nrank = 1\nat_iteration = 3\n"
                                  "[[chaos]]\nkind = \"kill\"\nranks = [0, 2]\nat_iteration = 3\n"),
      ElementsAre("a.toml:11: chaos[1].ranks: expected a rank from 0 to 1 (cluster.ranks = "
                  "2), found 2"));
}

TEST(C37_chaos, a_rank_twice_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nranks = [1, 1]\nat_iteration = 3"),
              ElementsAre("a.toml:7: chaos[0].ranks: expected each rank once, found 1 twice"));
}

TEST(C37_chaos, a_kill_without_a_rank_is_refused) {
  EXPECT_THAT(
      chaos_faults("kind = \"kill\"\nat_iteration = 3"),
      ElementsAre("a.toml:6: chaos[0].rank: expected the rank to kill, found neither `rank` "
                  "nor `ranks`; write rank = 1, ranks = [0, 1] or ranks = \"all\""));
}

TEST(C37_chaos, an_entry_without_a_kind_is_refused) {
  EXPECT_THAT(chaos_faults("rank = 1\nat_iteration = 3"),
              ElementsAre("a.toml:5: chaos[0].kind: expected one of \"kill\", \"stop\", "
                          "\"kill_actor\", \"nan\", \"flip_bit\", found none"));
}

TEST(C37_chaos, an_unknown_actor_is_refused_with_the_nearest_one) {
  const std::string wanted =
      "a.toml:7: chaos[0].actor: expected \"trainer:N\", \"checkpoint\", \"metrics\", "
      "\"run_supervisor\" or \"host_supervisor\", found ";
  const std::string start = "kind = \"kill_actor\"\nactor = ";
  const std::string end = "\nat_iteration = 3";
  EXPECT_THAT(chaos_faults(start + "\"checkpiont\"" + end),
              ElementsAre(wanted + "\"checkpiont\"; did you mean \"checkpoint\"?"));
  EXPECT_THAT(chaos_faults(start + "\"trainr:0\"" + end),
              ElementsAre(wanted + "\"trainr:0\"; did you mean \"trainer:0\"?"));
  EXPECT_THAT(chaos_faults(start + "\"janitor\"" + end), ElementsAre(wanted + "\"janitor\""));
}

TEST(C37_chaos, a_trainer_of_no_rank_is_refused) {
  for (const auto* actor :
       {"trainer:2", "trainer:", "trainer:x", "trainer:01", "trainer:-1", "trainer:99999999999"}) {
    EXPECT_THAT(chaos_faults("kind = \"kill_actor\"\nactor = \"" + std::string{actor} +
                             "\"\nat_iteration = 3"),
                ElementsAre("a.toml:7: chaos[0].actor: expected a trainer from 0 to 1 "
                            "(cluster.ranks = 2), found \"" +
                            std::string{actor} + "\""));
  }
}

TEST(C37_chaos, a_rank_for_an_actor_or_an_actor_for_a_rank_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"kill_actor\"\nactor = \"metrics\"\nrank = 1\nevery = 5"),
              ElementsAre("a.toml:8: chaos[0].rank: expected no rank with kind = \"kill_actor\", "
                          "found one; the worker dies with kind = \"kill\""));
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nactor = \"metrics\"\nrank = 1\nevery = 5"),
              ElementsAre("a.toml:7: chaos[0].actor: expected no actor with kind = \"kill\", found "
                          "\"metrics\"; actors die with kind = \"kill_actor\""));
  EXPECT_THAT(chaos_faults("kind = \"stop\"\nactor = \"metrics\"\nrank = 1\nevery = 5"),
              ElementsAre("a.toml:7: chaos[0].actor: expected no actor with kind = \"stop\", found "
                          "\"metrics\"; actors die with kind = \"kill_actor\""));
  EXPECT_THAT(
      chaos_faults("kind = \"stop\"\nevery = 5"),
      ElementsAre("a.toml:6: chaos[0].rank: expected the rank to stop, found neither `rank` "
                  "nor `ranks`; write rank = 1, ranks = [0, 1] or ranks = \"all\""));
}

TEST(C37_chaos, a_fault_after_the_end_is_refused) {
  EXPECT_THAT(faults(std::string{valid} + "[[chaos]]\nkind = \"kill\"\nrank = 1\nevery = 50\n",
                     {"train.max_iterations=49"}),
              ElementsAre("a.toml:8: chaos[0].every: expected at most train.max_iterations = 49, "
                          "found 50; the fault would never happen"));
}

TEST(C37_chaos, every_takes_a_duration_or_iterations) {
  const auto entries = parse_well(std::string{valid} +
                                  "[[chaos]]\nkind = \"kill\"\nranks = \"all\"\nevery = 50\n"
                                  "[[chaos]]\nkind = \"kill\"\nrank = 0\nevery = \"1.5s\"\n")
                           .values.chaos;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].every_iterations, 50u);
  EXPECT_FALSE(entries[0].every.has_value());
  EXPECT_EQ(entries[1].every, std::chrono::milliseconds{1500});
  EXPECT_FALSE(entries[1].every_iterations.has_value());
}

}  // namespace
}  // namespace ftrt::testing_scenario
