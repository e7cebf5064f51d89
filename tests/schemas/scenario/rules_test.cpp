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

TEST(C37_supervision, stragglers_that_could_never_be_replaced_are_refused) {
  EXPECT_THAT(
      faults_before_valid("[cluster]\nranks = 1\n[supervision]\non_straggler = \"replace\""),
      ElementsAre(
          "a.toml:4: supervision.on_straggler: expected \"report\" for a single rank, or at "
          "least 2 ranks, found \"replace\" with ranks = 1; a straggler is slower than "
          "other ranks"));
  const std::string two = "[cluster]\nranks = 2\n[supervision]\nmax_restarts = ";
  EXPECT_THAT(
      faults_before_valid(two + "1\non_straggler = \"replace\""),
      ElementsAre(
          "a.toml:5: supervision.on_straggler: expected \"report\", or a max_restarts of at "
          "least 2, found \"replace\" with max_restarts = 1; a straggler is replaced with "
          "the first half of the restarts only"));
  EXPECT_THAT(faults_before_valid(two + "2\non_straggler = \"replace\""), IsEmpty());
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
                          "\"kill_actor\", \"nan\", \"flip_bit\", \"slow\", \"kill_zygote\", "
                          "\"kill_supervisor\", \"clock_jump\", \"poison\", found none"));
}

TEST(C37_chaos, a_poisoned_batch_by_the_clock_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"poison\"\nrank = 1\nmtbf = \"3s\""),
              ElementsAre("a.toml:8: chaos[0].mtbf: expected at_iteration with kind = \"poison\", "
                          "found another when; a poisoned batch kills each time that it is "
                          "computed"));
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

TEST(C37_chaos, a_key_of_another_kind_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nrank = 1\nevery = 5\ndelay = \"1ms\""),
              ElementsAre("a.toml:9: chaos[0].delay: expected no `delay` with kind = \"kill\", "
                          "found one; it belongs to kind = \"slow\""));
  EXPECT_THAT(chaos_faults("kind = \"nan\"\nrank = 1\nevery = 5\nin = \"join\""),
              ElementsAre("a.toml:9: chaos[0].in: expected no `in` with kind = \"nan\", found one; "
                          "a worker meets kind = \"kill\" or \"stop\" in a phase"));
  EXPECT_THAT(chaos_faults("kind = \"kill_zygote\"\nrank = 1\nevery = 5"),
              ElementsAre("a.toml:7: chaos[0].rank: expected no rank with kind = \"kill_zygote\", "
                          "found one; the worker dies with kind = \"kill\""));
  EXPECT_THAT(chaos_faults("kind = \"slow\"\nrank = 1\nevery = 5\ndelay = \"1ms\"\nby = \"8h\""),
              ElementsAre("a.toml:10: chaos[0].by: expected no `by` with kind = \"slow\", found "
                          "one; it belongs to kind = \"clock_jump\""));
}

TEST(C37_chaos, a_kind_without_what_it_needs_is_refused) {
  EXPECT_THAT(chaos_faults("kind = \"slow\"\nrank = 1\nevery = 5"),
              ElementsAre("a.toml:6: chaos[0].delay: expected `delay` with kind = \"slow\", found "
                          "none; for example delay = \"20ms\""));
  EXPECT_THAT(chaos_faults("kind = \"clock_jump\"\nevery = 5"),
              ElementsAre("a.toml:6: chaos[0].by: expected `by` with kind = \"clock_jump\", found "
                          "none; for example by = \"8h\""));
}

TEST(C37_chaos, an_unknown_phase_is_refused_with_the_nearest_one) {
  const auto lines = chaos_faults("kind = \"kill\"\nrank = 1\nevery = 5\nin = \"allreduce\"");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("a.toml:9: chaos[0].in: expected one of \"any\", "));
  EXPECT_THAT(lines[0], HasSubstr("did you mean \"all_reduce\"?"));
}

TEST(C37_chaos, the_first_start_join_or_stop_needs_no_moment) {
  for (const auto* phase : {"start", "join", "stop"}) {
    EXPECT_THAT(chaos_faults("kind = \"kill\"\nrank = 1\nin = \"" + std::string{phase} + "\""),
                IsEmpty());
  }
  EXPECT_THAT(chaos_faults("kind = \"kill\"\nrank = 1\nin = \"optimizer\""),
              ElementsAre("a.toml:6: chaos[0].at_iteration: expected exactly one of at_iteration, "
                          "every_iterations, every, mtbf, found none of them"));
}

TEST(C37_chaos, a_jump_goes_either_way_but_not_nowhere) {
  const auto jump = [](const std::string& by) {
    return std::string{valid} + "[[chaos]]\nkind = \"clock_jump\"\nat_iteration = 5\nby = " + by +
           "\n";
  };
  EXPECT_EQ(parse_well(jump("\"8h\"")).values.chaos.at(0).by, std::chrono::hours{8});
  EXPECT_EQ(parse_well(jump("\"-90s\"")).values.chaos.at(0).by, std::chrono::seconds{-90});
  const std::string wanted =
      "a.toml:8: chaos[0].by: expected a duration such as \"8h\", or \"-8h\" to go back, up to a "
      "year, found ";
  EXPECT_THAT(faults(jump("\"0s\"")), ElementsAre(wanted + "\"0s\""));
  EXPECT_THAT(faults(jump("\"-9000h\"")), ElementsAre(wanted + "\"-9000h\""));
  EXPECT_THAT(faults(jump("-5")), ElementsAre(HasSubstr(wanted + "-5; ")));
  EXPECT_THAT(faults(jump("\"--5s\"")), ElementsAre(HasSubstr(wanted + "\"--5s\"")));
}

TEST(C37_expectations, a_digest_is_one_or_the_fault_free_one) {
  const std::string hex(32, 'a');
  EXPECT_THAT(faults(valid, {"expect.weights_digest=" + hex}), IsEmpty());
  EXPECT_THAT(faults(valid, {"expect.weights_digest=" + std::string(32, '1')}), IsEmpty());
  EXPECT_THAT(
      faults(valid, {"expect.weights_digest=same_as_faultfree"}),
      ElementsAre("--set: expect.weights_digest: expected \"same_as_fault_free\", or 32 hex "
                  "digits, found \"same_as_faultfree\"; did you mean "
                  "\"same_as_fault_free\"?"));
  EXPECT_THAT(faults(valid, {"expect.weights_digest=" + hex + "a"}), testing::SizeIs(1));
}

TEST(C37_expectations, fewer_recoveries_than_at_least_are_refused) {
  EXPECT_THAT(faults_before_valid("[expect]\nmin_recoveries = 3\nmax_recoveries = 2"),
              ElementsAre("a.toml:2: expect.min_recoveries: expected at most max_recoveries = 2, "
                          "found 3"));
}

TEST(C37_expectations, go_with_the_faults_when_those_are_dropped) {
  const auto text = std::string{valid} +
                    "[[chaos]]\nkind = \"kill\"\nrank = 0\nevery = 5\n"
                    "[expect]\nmin_recoveries = 3\n";
  EXPECT_EQ(parse_well(text).values.expect.min_recoveries, 3U);
  const auto dropped = parse(text, {"chaos=[]"});
  ASSERT_TRUE(dropped.has_value());
  EXPECT_FALSE(dropped->values.expect.min_recoveries.has_value());
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
