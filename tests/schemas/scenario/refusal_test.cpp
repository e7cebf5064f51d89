#include <tests/schemas/scenario/scenario_text.hpp>

namespace ftrt::testing_scenario {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(C36_names, the_valid_rest_of_these_tests_is_valid) {
  EXPECT_THAT(faults(valid), IsEmpty());
}

TEST(C36_names, a_misspelt_key_is_refused_with_the_nearest_one) {
  EXPECT_THAT(
      faults_before_valid("[train]\nmomentun = 0.9"),
      ElementsAre("a.toml:2: train.momentun: expected a key of [train], found \"momentun\"; "
                  "did you mean `momentum`?"));
}

TEST(C36_names, a_misplaced_key_is_refused_with_its_table) {
  EXPECT_THAT(faults_before_valid("[checkpoint]\nmomentum = 0.9"),
              ElementsAre("a.toml:2: checkpoint.momentum: expected a key of [checkpoint], found "
                          "\"momentum\"; `momentum` belongs to [train]"));
}

TEST(C36_names, a_misspelt_and_misplaced_key_is_refused_with_both) {
  EXPECT_THAT(faults_before_valid("[checkpoint]\nmomentun = 0.9"),
              ElementsAre("a.toml:2: checkpoint.momentun: expected a key of [checkpoint], found "
                          "\"momentun\"; did you mean `momentum` of [train]?"));
}

TEST(C36_names, a_key_like_no_other_is_refused_with_those_of_its_table) {
  EXPECT_THAT(faults_before_valid("[metrics]\nprometheus = true"),
              ElementsAre("a.toml:2: metrics.prometheus: expected a key of [metrics], found "
                          "\"prometheus\"; [metrics] has tensorboard, every_iterations"));
}

TEST(C36_names, a_key_outside_of_all_tables_is_refused_with_its_table) {
  EXPECT_THAT(faults_before_valid("lr = 0.1"),
              ElementsAre("a.toml:1: lr: expected a key inside a table, found `lr` outside of all "
                          "tables; `lr` belongs to [train]"));
}

TEST(C36_names, a_misspelt_table_is_refused_with_the_nearest_one) {
  EXPECT_THAT(faults_before_valid("[chekpoint]\nkeep_last = 3"),
              ElementsAre("a.toml:1: chekpoint: expected a table of a scenario, found [chekpoint]; "
                          "did you mean [checkpoint]?"));
}

TEST(C36_names, a_table_like_no_other_is_refused_with_the_list) {
  EXPECT_THAT(faults_before_valid("[gpu]\ncount = 3"),
              ElementsAre("a.toml:1: gpu: expected a table of a scenario, found [gpu]; the tables "
                          "are [run] [cluster] [model] [data] [train] [checkpoint] [supervision] "
                          "[metrics] [expect] [[chaos]]"));
}

TEST(C36_names, a_value_where_a_table_belongs_is_refused) {
  EXPECT_THAT(faults_before_valid("train = 5"),
              ElementsAre("a.toml:1: train: expected a table, [train], found 5"));
}

TEST(C36_names, a_list_of_tables_where_one_belongs_is_refused) {
  EXPECT_THAT(faults_before_valid("[[run]]\nname = \"x\""),
              ElementsAre("a.toml:1: run: expected a table, [run], found [[run]]"));
}

TEST(C36_names, one_table_of_chaos_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[chaos]\nkind = \"kill\""),
      ElementsAre("a.toml:1: chaos: expected [[chaos]] tables, at most 1000, found [chaos]; "
                  "write [[chaos]], with two brackets, for each fault"));
}

TEST(C36_names, a_misspelt_key_does_not_count_as_a_missing_one) {
  EXPECT_THAT(faults("[model]\nlayer = [784, 10]\n[data]\npath = \"/data\"\n"),
              ElementsAre("a.toml:2: model.layer: expected a key of [model], found \"layer\"; did "
                          "you mean `layers`?"));
}

TEST(C36_names, control_characters_of_a_name_do_not_reach_the_terminal) {
  const auto lines = faults_before_valid("\"\\u001b[2J\" = 1");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(lines.front(), HasSubstr("\\u001B[2J"));
}

TEST(C37_values, a_text_for_a_number_is_refused) {
  EXPECT_THAT(faults_before_valid("[train]\nepochs = \"5\"\nlr = \"0.1\"\nnesterov = \"true\""),
              ElementsAre("a.toml:2: train.epochs: expected an integer from 1 to 1000000, found "
                          "\"5\"; write 5, without quotes",
                          "a.toml:3: train.lr: expected a number greater than 0, found \"0.1\"; "
                          "write it without quotes",
                          "a.toml:4: train.nesterov: expected true or false, found \"true\"; write "
                          "it without quotes"));
}

TEST(C37_values, a_fraction_for_an_integer_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[train]\nepochs = 2.5\nglobal_batch = 64.0"),
      ElementsAre("a.toml:2: train.epochs: expected an integer from 1 to 1000000, found 2.5",
                  "a.toml:3: train.global_batch: expected an integer from 1 to 1000000000, "
                  "found 64.0; write 64"));
}

TEST(C37_values, what_is_out_of_range_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[train]\nlr = 0\nmomentum = -0.1\nbeta1 = 1.0\nmicro_batch = -32"),
      ElementsAre(
          "a.toml:2: train.lr: expected a number greater than 0, found 0",
          "a.toml:3: train.momentum: expected a number of at least 0 and less than 1, found -0.1",
          "a.toml:4: train.beta1: expected a number of at least 0 and less than 1, found 1.0",
          "a.toml:5: train.micro_batch: expected an integer from 1 to 1000000000, found -32"));
}

TEST(C37_values, what_is_no_number_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[train]\nlr = nan\nweight_decay = inf\nclip_norm = -inf"),
      ElementsAre("a.toml:2: train.lr: expected a number greater than 0, found nan",
                  "a.toml:3: train.weight_decay: expected a number of at least 0, found inf",
                  "a.toml:4: train.clip_norm: expected a number of at least 0, found -inf"));
}

TEST(C37_values, an_integer_of_more_than_64_bits_is_refused) {
  const auto lines = faults_before_valid("[run]\nseed = 99999999999999999999");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), testing::StartsWith("a.toml:2: expected valid TOML, found "));
  EXPECT_THAT(lines.front(), HasSubstr("99999999999999999999"));
}

TEST(C37_values, an_unknown_choice_is_refused_with_the_list) {
  EXPECT_THAT(
      faults_before_valid("[train]\noptimizer = \"adam\"\n[cluster]\ndevice = \"gpu\""),
      ElementsAre("a.toml:2: train.optimizer: expected one of \"sgd\", \"adamw\", found \"adam\"; "
                  "did you mean \"adamw\"?",
                  "a.toml:4: cluster.device: expected one of \"cpu\", \"cuda\", found \"gpu\"; did "
                  "you mean \"cuda\"?"));
}

TEST(C37_values, a_bare_number_for_a_duration_is_refused_with_both_readings) {
  EXPECT_THAT(
      faults_before_valid("[supervision]\nwindow = 90"),
      ElementsAre("a.toml:2: supervision.window: expected a duration from 1ms to 24h such "
                  "as \"200ms\", found 90; write the unit: \"90ms\" or \"90s\" (= 1.5min)"));
}

TEST(C37_values, a_bare_number_for_a_size_is_refused_with_both_readings) {
  EXPECT_THAT(faults_before_valid("[train]\nbucket_bytes = 4194304"),
              ElementsAre("a.toml:2: train.bucket_bytes: expected a size from 1KiB to 1GiB such as "
                          "\"4MiB\", found 4194304; write the unit: \"4194304B\" (= 4MiB) or "
                          "\"4194304MiB\" (= 4TiB)"));
}

TEST(C37_values, a_malformed_unit_is_refused) {
  const std::string prefix = "expected a duration from 1ms to 24h such as \"200ms\", found ";
  EXPECT_THAT(
      faults_before_valid("[supervision]\nwindow = \"5 s\"\nstart_timeout = \"5m\"\n"
                          "park_timeout = \"-5s\"\njoin_timeout = \"48h\""),
      ElementsAre(
          "a.toml:2: supervision.window: " + prefix + "\"5 s\"; write \"5s\", without a space",
          "a.toml:3: supervision.start_timeout: " + prefix +
              "\"5m\"; did you mean \"5min\"? the units are ns, us, ms, s, min, h",
          "a.toml:4: supervision.park_timeout: " + prefix +
              "\"-5s\"; write digits and a unit; the units are ns, us, ms, s, min, h",
          "a.toml:5: supervision.join_timeout: " + prefix + "\"48h\""));
}

TEST(C37_values, a_name_that_is_no_file_name_is_refused) {
  for (const auto* name : {"../evil", "", ".hidden", "-rf", "a b", "a/b", "caf\\u00e9"}) {
    const auto lines = faults_before_valid("[run]\nname = \"" + std::string{name} + "\"");
    ASSERT_EQ(lines.size(), 1u) << name;
    EXPECT_THAT(lines.front(), HasSubstr("a.toml:2: run.name: expected a word of letters")) << name;
  }
}

TEST(C37_values, a_date_or_a_list_or_a_table_for_a_number_is_refused) {
  EXPECT_THAT(
      faults_before_valid("[train]\nlr = 2026-11-30\nmomentum = [0.9]\nmin_lr = {a = 1}"),
      ElementsAre(
          "a.toml:2: train.lr: expected a number greater than 0, found a date or time",
          "a.toml:3: train.momentum: expected a number of at least 0 and less than 1, found "
          "[0.9]",
          "a.toml:4: train.min_lr: expected a number of at least 0, found a table"));
}

TEST(C37_values, layers_of_no_width_are_refused) {
  EXPECT_THAT(faults("[model]\nlayers = [784, 0]\n[data]\npath = \"/data\"\n"),
              ElementsAre("a.toml:2: model.layers: expected a list of integers from 1 to 1000000, "
                          "found [784, 0]"));
}

TEST(C37_values, a_slip_of_a_built_in_model_is_refused) {
  EXPECT_THAT(
      faults("[model]\nkind = \"mpl\"\n[data]\npath = \"/data\"\n"),
      ElementsAre("a.toml:2: model.kind: expected one of \"mlp\", \"cnn\", or the name of a "
                  "registered model, found \"mpl\"; did you mean \"mlp\"?"));
}

TEST(C37_values, a_registered_model_is_left_to_the_worker) {
  const auto s = parse_well("[model]\nkind = \"resnet18\"\n[data]\npath = \"/data\"\n").values;
  EXPECT_EQ(s.model.kind, "resnet18");
}

TEST(C11_retention, keeping_no_checkpoint_is_refused) {
  EXPECT_THAT(faults_before_valid("[checkpoint]\nkeep_last = 0"),
              ElementsAre("a.toml:2: checkpoint.keep_last: expected an integer from 1 to 1000000, "
                          "found 0"));
}

TEST(scenario_refusal, a_syntax_error_is_one_diagnostic_with_its_line) {
  const auto lines = faults("[train]\nlr = \n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), testing::StartsWith("a.toml:2: expected valid TOML, found "));
}

TEST(scenario_refusal, a_key_twice_is_refused) {
  const auto lines = faults("[train]\nlr = 0.1\nlr = 0.2\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), testing::StartsWith("a.toml:3: expected valid TOML, found "));
}

TEST(scenario_refusal, all_faults_are_reported_at_once_in_the_order_of_the_file) {
  EXPECT_THAT(faults("[train]\nmomentun = 0.9\nlr = -1\n[model]\nlayers = [784, 10]\n"
                     "[cluster]\nranks = 9\n[data]\nkind = \"mnist\"\n",
                     {"checkpoint.keep_last=0"}),
              ElementsAre(HasSubstr("a.toml:2: train.momentun"), HasSubstr("a.toml:3: train.lr"),
                          HasSubstr("a.toml:7: cluster.ranks"), HasSubstr("a.toml:8: data.path"),
                          HasSubstr("--set: checkpoint.keep_last")));
}

TEST(scenario_refusal, a_file_that_cannot_be_read_is_a_diagnostic) {
  EXPECT_THAT(described(load_scenario("/nowhere/a.toml")),
              ElementsAre("/nowhere/a.toml: expected a scenario file, found no such file"));
  EXPECT_THAT(described(load_scenario("/")),
              ElementsAre("/: expected a scenario file, found something that is no regular file"));
}

TEST(scenario_refusal, an_enormous_text_is_refused_unread) {
  EXPECT_THAT(faults(std::string((1u << 20) + 1, '#')),
              ElementsAre("a.toml: expected a scenario of at most 1 MiB, found a larger one"));
}

TEST(scenario_refusal, hopelessly_many_faults_are_cut_short) {
  std::string text = "[train]\n";
  for (int i = 0; i < 60000; ++i) text += "key_" + std::to_string(i) + " = 1\n";
  const auto lines = faults(text);
  ASSERT_EQ(lines.size(), 501u);
  EXPECT_EQ(lines.back(),
            "a.toml: expected fewer faults, found more than 500; the rest is not shown");
}

TEST(scenario_refusal, a_data_path_below_a_folder_that_is_no_utf8_is_refused) {
  const auto outcome = parse_scenario("[model]\nlayers = [784, 10]\n[data]\npath = \"mnist\"\n",
                                      "a.toml", "/home/\xff");
  ASSERT_EQ(described(outcome).size(), 1u);
  EXPECT_THAT(described(outcome).front(), HasSubstr("data.path: expected a path in UTF-8"));
}

}  // namespace
}  // namespace ftrt::testing_scenario
