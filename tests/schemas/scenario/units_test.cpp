#include <gmock/gmock.h>

#include <array>
#include <schemas/scenario/nearest.hpp>
#include <schemas/scenario/units.hpp>

namespace ftrt::grammar {
namespace {

using namespace std::chrono_literals;

TEST(durations, have_a_unit) {
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("200ms"), 200ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_duration("0.25h"), 15min);
  EXPECT_EQ(parse_duration("0s"), 0s);
}

TEST(durations, are_exact_or_refused) {
  EXPECT_EQ(parse_duration("0.000001ms"), 1ns);
  EXPECT_EQ(parse_duration("0.5ns"), std::nullopt);
  EXPECT_EQ(parse_duration("0.0000001s"), std::nullopt);  // seven decimals
}

TEST(durations, that_do_not_fit_are_refused) {
  EXPECT_EQ(parse_duration("9223372036854775807ns"), std::chrono::nanoseconds::max());
  EXPECT_EQ(parse_duration("9223372036854775808ns"), std::nullopt);
  EXPECT_EQ(parse_duration("9999999h"), std::nullopt);
  EXPECT_EQ(parse_duration("99999999999999999999s"), std::nullopt);
}

TEST(durations, that_are_malformed_are_refused) {
  for (const auto* text : {"", "s", "5", "5 s", " 5s", "5s ", "-5s", "+5s", "5.s", ".5s", "1e3s",
                           "5S", "5m", "1min30s", "0x5s", "5,5s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(durations, are_spelled_in_the_largest_exact_unit) {
  EXPECT_EQ(spell_duration(60s), "1min");
  EXPECT_EQ(spell_duration(90s), "90s");
  EXPECT_EQ(spell_duration(1500ms), "1500ms");
  EXPECT_EQ(spell_duration(0s), "0s");
  EXPECT_EQ(spell_duration(24h), "24h");
}

TEST(sizes, are_binary_or_decimal) {
  EXPECT_EQ(parse_size("17B"), 17u);
  EXPECT_EQ(parse_size("64KiB"), 65536u);
  EXPECT_EQ(parse_size("4MiB"), 4194304u);
  EXPECT_EQ(parse_size("1GB"), 1000000000u);
  EXPECT_EQ(parse_size("1.5KiB"), 1536u);
  EXPECT_EQ(parse_size("0.3KiB"), std::nullopt);
  EXPECT_EQ(parse_size("9999999999TiB"), std::nullopt);
}

TEST(sizes, are_spelled_in_the_largest_exact_unit) {
  EXPECT_EQ(spell_size(4194304), "4MiB");
  EXPECT_EQ(spell_size(1000), "1000B");
  EXPECT_EQ(spell_size(1536), "1536B");
}

TEST(unit_hints, know_how_people_write_units) {
  EXPECT_THAT(duration_hint("5 min"), testing::StartsWith("write \"5min\", without a space"));
  EXPECT_THAT(duration_hint("10sec"), testing::StartsWith("did you mean \"10s\"?"));
  EXPECT_THAT(size_hint("4M"), testing::StartsWith("did you mean \"4MiB\"?"));
  EXPECT_THAT(size_hint("4mib"), testing::StartsWith("did you mean \"4MiB\"?"));
  EXPECT_THAT(duration_hint("0.5ns"), testing::HasSubstr("whole number of ns"));
}

TEST(edit_distance, counts_inserts_deletes_replacements_and_swaps) {
  EXPECT_EQ(edit_distance("momentum", "momentum"), 0u);
  EXPECT_EQ(edit_distance("momentun", "momentum"), 1u);
  EXPECT_EQ(edit_distance("mpl", "mlp"), 1u);
  EXPECT_EQ(edit_distance("MLP", "mlp"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(nearest, guesses_only_what_is_close) {
  constexpr std::array<std::string_view, 3> names{"train", "metrics", "checkpoint"};
  EXPECT_EQ(nearest("trian", names), "train");
  EXPECT_EQ(nearest("metric", names), "metrics");
  EXPECT_EQ(nearest("banana", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 't'), names), std::nullopt);
}

}  // namespace
}  // namespace ftrt::grammar
