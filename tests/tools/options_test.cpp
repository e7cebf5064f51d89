#include "tools/ftrt/options.hpp"

#include <gmock/gmock.h>

#include <initializer_list>

namespace ftrt::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

parsed parse(std::initializer_list<const char*> words) {
  std::vector<const char*> arguments{"ftrt"};
  arguments.insert(arguments.end(), words);
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(options, training_takes_a_scenario_and_repeated_overrides) {
  const auto got = parse({"--scenario", "a.toml", "--set", "train.lr=0.05", "--set", "run.seed=2",
                          "--summary", "s.json", "--quiet"});
  ASSERT_TRUE(got.go_on) << got.text;
  EXPECT_EQ(got.values.what, command::train);
  EXPECT_EQ(got.values.scenario, "a.toml");
  EXPECT_THAT(got.values.overrides, ElementsAre("train.lr=0.05", "run.seed=2"));
  EXPECT_EQ(got.values.summary, "s.json");
  EXPECT_TRUE(got.values.quiet);
  EXPECT_FALSE(got.values.runs_directory_given);
}

TEST(options, the_commands_on_past_runs_take_a_run_and_a_folder) {
  const auto events = parse({"events", "mnist-1", "--json", "--runs-directory", "/r"});
  ASSERT_TRUE(events.go_on) << events.text;
  EXPECT_EQ(events.values.what, command::events);
  EXPECT_EQ(events.values.run_id, "mnist-1");
  EXPECT_EQ(events.values.runs_directory, "/r");
  EXPECT_TRUE(events.values.json);

  const auto runs = parse({"--runs-directory", "/q", "runs"});
  ASSERT_TRUE(runs.go_on) << runs.text;
  EXPECT_EQ(runs.values.what, command::runs);
  EXPECT_EQ(runs.values.runs_directory, "/q");

  const auto resume = parse({"resume", "--set", "train.epochs=9"});
  ASSERT_TRUE(resume.go_on) << resume.text;
  EXPECT_EQ(resume.values.what, command::resume);
  EXPECT_EQ(resume.values.run_id, "");
  EXPECT_EQ(resume.values.runs_directory, "runs");
}

TEST(options, status_and_postmortem_take_a_run_and_the_latter_a_generation) {
  const auto status = parse({"status", "mnist-1", "--json"});
  ASSERT_TRUE(status.go_on) << status.text;
  EXPECT_EQ(status.values.what, command::status);
  EXPECT_EQ(status.values.run_id, "mnist-1");
  EXPECT_TRUE(status.values.json);
  const auto newest = parse({"postmortem"});
  ASSERT_TRUE(newest.go_on) << newest.text;
  EXPECT_EQ(newest.values.what, command::postmortem);
  EXPECT_FALSE(newest.values.generation);
  const auto third = parse({"postmortem", "mnist-1", "3"});
  ASSERT_TRUE(third.go_on) << third.text;
  EXPECT_EQ(third.values.generation, 3U);
  EXPECT_FALSE(parse({"postmortem", "mnist-1", "-3"}).go_on);
  EXPECT_FALSE(parse({"postmortem", "mnist-1", "three"}).go_on);
  EXPECT_FALSE(parse({"status", "mnist-1", "3"}).go_on);
}

TEST(options, stop_takes_a_run_and_says_how_long_it_waits) {
  const auto stop = parse({"stop", "mnist-1", "--timeout", "1.5", "--json"});
  ASSERT_TRUE(stop.go_on) << stop.text;
  EXPECT_EQ(stop.values.what, command::stop);
  EXPECT_EQ(stop.values.run_id, "mnist-1");
  EXPECT_EQ(stop.values.timeout, std::chrono::milliseconds{1500});
  EXPECT_TRUE(stop.values.json);
  EXPECT_FALSE(stop.values.no_wait);
  const auto newest = parse({"stop", "--no-wait"});
  ASSERT_TRUE(newest.go_on) << newest.text;
  EXPECT_EQ(newest.values.run_id, "");
  EXPECT_TRUE(newest.values.no_wait);
  EXPECT_FALSE(newest.values.timeout);
}

TEST(options, help_and_version_are_no_failure) {
  const auto help = parse({"--help"});
  EXPECT_FALSE(help.go_on);
  EXPECT_EQ(help.code, exit_code::done);
  EXPECT_THAT(help.text, HasSubstr("Examples:"));
  EXPECT_THAT(help.text, HasSubstr("checkpoints"));
  EXPECT_THAT(parse({"check", "--help"}).text, HasSubstr("--set"));
  EXPECT_THAT(parse({"--version"}).text, HasSubstr("ftrt 0."));
}

TEST(options, what_makes_no_sense_is_refused_with_a_word_on_how_to_go_on) {
  const std::vector<std::vector<const char*>> nonsense{
      {"ftrt"},
      {"ftrt", "--scenari", "a.toml"},
      {"ftrt", "--scenario"},
      {"ftrt", "train"},
      {"ftrt", "--scenario", "a.toml", "--set", "lr"},
      {"ftrt", "--scenario", "a.toml", "--set", "=1"},
      {"ftrt", "--scenario", "a.toml", "runs"},
      {"ftrt", "--quiet", "runs"},
      {"ftrt", "--set", "a=1", "events"},
      {"ftrt", "check"},
      {"ftrt", "runs", "events"},
      {"ftrt", "runs", "one"},
      {"ftrt", "events", "one", "two"},
      {"ftrt", "stop", "--timeout", "-1"},
      {"ftrt", "stop", "--timeout", "soon"},
      {"ftrt", "stop", "--timeout", "nan"},
      {"ftrt", "stop", "--timeout", "1e300"},
      {"ftrt", "stop", "--timeout", "1", "--no-wait"},
  };
  for (const auto& words : nonsense) {
    const auto got = parse_options(static_cast<int>(words.size()), words.data());
    EXPECT_FALSE(got.go_on) << words.back();
    EXPECT_EQ(got.code, exit_code::refused) << words.back();
    EXPECT_THAT(got.text, HasSubstr("ftrt --help")) << words.back();
  }
}

}  // namespace
}  // namespace ftrt::cli
