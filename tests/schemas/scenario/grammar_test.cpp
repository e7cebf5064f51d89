#include <cstdlib>
#include <fstream>
#include <iterator>
#include <schemas/scenario/docs.hpp>
#include <schemas/scenario/grammar.hpp>
#include <schemas/scenario/spell.hpp>
#include <set>
#include <tests/schemas/scenario/scenario_text.hpp>
#include <tests/support/environment.hpp>
#include <type_traits>

namespace ftrt::grammar {
namespace {

// How many members an aggregate has: as many as can be initialised, each from something that
// converts to anything.
struct anything {
  template <class T>
  operator T() const;
};

template <class Aggregate, class... Given>
constexpr std::size_t members() {
  if constexpr (requires { Aggregate{Given{}..., anything{}}; }) {
    return members<Aggregate, Given..., anything>();
  } else {
    return sizeof...(Given);
  }
}

std::size_t keys_in(std::string_view table) {
  return key_names(table).size();
}

TEST(grammar, has_a_key_for_every_member_of_the_scenario) {
  const scenario s;
  EXPECT_EQ(keys_in("run"), members<decltype(s.run)>());
  EXPECT_EQ(keys_in("cluster"), members<decltype(s.cluster)>());
  EXPECT_EQ(keys_in("model"), members<decltype(s.model)>());
  EXPECT_EQ(keys_in("data"), members<decltype(s.data)>());
  EXPECT_EQ(keys_in("train"), members<decltype(s.train)>());
  EXPECT_EQ(keys_in("checkpoint"), members<decltype(s.checkpoint)>());
  EXPECT_EQ(keys_in("supervision"), members<decltype(s.supervision)>());
  EXPECT_EQ(keys_in("metrics"), members<decltype(s.metrics)>());
  EXPECT_EQ(keys_in("expect"), members<decltype(s.expect)>());
  // `ranks` and `all_ranks` are told by the keys `rank` and `ranks`.
  EXPECT_EQ(keys_in("chaos"), members<chaos_entry>());
}

TEST(grammar, has_no_two_keys_for_one_member) {
  scenario s;
  s.chaos.emplace_back();
  std::set<const void*> places;
  for (const auto& key : keys()) {
    if (std::holds_alternative<chaos_entry*>(key.at(s, 0))) continue;
    const auto* place =
        std::visit([](auto* to) { return static_cast<const void*>(to); }, key.at(s, 0));
    EXPECT_TRUE(places.insert(place).second) << full_name(key);
  }
}

TEST(grammar, names_tables_and_keys_once) {
  std::set<std::string> names;
  for (const auto& key : keys()) {
    EXPECT_TRUE(is_table(key.table)) << key.table;
    EXPECT_TRUE(names.insert(full_name(key)).second) << full_name(key);
    EXPECT_EQ(find_key(key.table, key.name), &key);
    EXPECT_FALSE(key.doc.empty()) << full_name(key);
  }
}

TEST(grammar, finds_its_own_defaults_valid) {
  // All but what no default can know: the layers and where the data lie.
  EXPECT_THAT(testing_scenario::faults(testing_scenario::valid), testing::IsEmpty());
  const auto parsed = testing_scenario::parse_well(testing_scenario::valid).values;
  scenario defaults;
  defaults.model.layers = parsed.model.layers;
  defaults.data.path = parsed.data.path;
  EXPECT_EQ(parsed, defaults);
  EXPECT_THAT(check_scenario(defaults), testing::IsEmpty());
}

TEST(scenario_reference, equals_the_grammar) {
  const auto text = test::read_file(test::source_tree() / "docs/scenario.md");
  EXPECT_TRUE(text == reference())
      << "docs/scenario.md is not what the grammar says; write it anew with\n"
         "  cmake --build build --target ftrt_scenario_docs && "
         "build/bin/ftrt-scenario-docs docs/scenario.md";
}

TEST(scenario_reference, has_an_example_that_is_valid) {
  const auto text = reference();
  const std::string fence = "```toml\n";
  const auto start = text.find(fence) + fence.size();
  const auto example = text.substr(start, text.find("```", start) - start);
  EXPECT_THAT(testing_scenario::faults(example), testing::IsEmpty());
}

}  // namespace
}  // namespace ftrt::grammar
