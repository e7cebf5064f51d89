#include <schemas/scenario/grammar.hpp>

#include <algorithm>
#include <schemas/scenario/nearest.hpp>
#include <schemas/scenario/spell.hpp>
#include <schemas/scenario/units.hpp>

namespace ftrt::grammar {
namespace {

std::string bound(const key_spec& key, double value) {
  if (key.type == value_type::duration || key.type == value_type::every) {
    return spell_duration(std::chrono::nanoseconds{static_cast<std::int64_t>(value)});
  }
  if (key.type == value_type::size) return spell_size(static_cast<std::uint64_t>(value));
  if (key.type == value_type::number) return short_number(value);
  if (value >= 9.2e18) return "9223372036854775807";
  return std::to_string(static_cast<std::int64_t>(value));
}

// " of at least 1", " from 1 to 8", " greater than 0", "" where there is no limit.
std::string range_text(const key_spec& key) {
  const auto& range = key.range;
  const bool has_low = range.low > -std::numeric_limits<double>::infinity();
  const bool has_high = range.high < std::numeric_limits<double>::infinity();
  if (has_low && has_high && !range.low_open && !range.high_open) {
    return " from " + bound(key, range.low) + " to " + bound(key, range.high);
  }
  std::string text;
  if (has_low) {
    text = (range.low_open ? " greater than " : " of at least ") + bound(key, range.low);
  }
  if (has_high) {
    text += std::string{text.empty() ? "" : " and"} +
            (range.high_open ? " less than "
             : has_low       ? " at most "
                             : " of at most ") +
            bound(key, range.high);
  }
  return text;
}

std::string choice_text(const key_spec& key) {
  std::string text = "one of ";
  for (const auto& choice : key.choices) {
    text += (choice == key.choices.front() ? "" : ", ") + quote(choice);
  }
  return text;
}

std::string all_names(std::string_view table) {
  std::string text = "[" + std::string{table} + "] has ";
  bool first = true;
  for (const auto name : key_names(table)) {
    text += (first ? "" : ", ") + std::string{name};
    first = false;
  }
  return text;
}

std::string table_header(std::string_view table) {
  const std::string name{table};
  return table == chaos_table ? "[[" + name + "]]" : "[" + name + "]";
}

}  // namespace

const key_spec* find_key(std::string_view table, std::string_view name) {
  const auto found = std::ranges::find_if(
      keys(), [&](const key_spec& key) { return key.table == table && key.name == name; });
  return found == keys().end() ? nullptr : &*found;
}

bool is_table(std::string_view name) {
  return std::ranges::find(tables(), name, &table_spec::name) != tables().end();
}

std::vector<std::string_view> table_names() {
  std::vector<std::string_view> names;
  for (const auto& table : tables()) names.push_back(table.name);
  return names;
}

std::vector<std::string_view> key_names(std::string_view table) {
  std::vector<std::string_view> names;
  for (const auto& key : keys()) {
    if (key.table == table) names.push_back(key.name);
  }
  return names;
}

std::string full_name(const key_spec& key, std::size_t entry) {
  std::string name{key.table};
  if (key.table == chaos_table) name += "[" + std::to_string(entry) + "]";
  return name + "." + std::string{key.name};
}

std::string expected(const key_spec& key) {
  switch (key.type) {
    case value_type::word:
      return "a word of letters, digits, '_', '-' and '.', at most 64 of them";
    case value_type::kind:
      return choice_text(key) + ", or the name of a registered model";
    case value_type::path:
      return "a path, in quotes";
    case value_type::choice:
      return choice_text(key);
    case value_type::integer:
      return "an integer" + range_text(key);
    case value_type::number:
      return "a number" + range_text(key);
    case value_type::boolean:
      return "true or false";
    case value_type::duration:
      return "a duration" + range_text(key) + " such as \"200ms\"";
    case value_type::size:
      return "a size" + range_text(key) + " such as \"4MiB\"";
    case value_type::integers:
      return "a list of integers" + range_text(key);
    case value_type::rank:
      return "a rank, an integer of at least 0";
    case value_type::ranks:
      return "a list of ranks such as [0, 1], or \"all\"";
    case value_type::every:
      return "a duration" + range_text(key) + " such as \"10s\", or a number of iterations";
    case value_type::jump:
      return "a duration such as \"8h\", or \"-8h\" to go back, up to a year";
    case value_type::digest:
      return quote(key.choices.front()) + ", or 32 hex digits";
    case value_type::actor:
      return "\"trainer:N\", \"checkpoint\", \"metrics\", \"run_supervisor\" or "
             "\"host_supervisor\"";
  }
  return {};
}

std::string unknown_key_hint(std::string_view table, std::string_view name) {
  for (const auto& other : tables()) {
    if (other.name == table || find_key(other.name, name) == nullptr) continue;
    return "`" + std::string{name} + "` belongs to " + table_header(other.name);
  }
  if (const auto close = nearest(name, key_names(table))) {
    return "did you mean `" + std::string{*close} + "`?";
  }
  for (const auto& other : tables()) {
    const auto close = nearest(name, key_names(other.name));
    if (!close) continue;
    return "did you mean `" + std::string{*close} + "` of " + table_header(other.name) + "?";
  }
  return table.empty() ? std::string{} : all_names(table);
}

std::string unknown_table_hint(std::string_view name) {
  const auto names = table_names();
  if (const auto close = nearest(name, names)) return "did you mean " + table_header(*close) + "?";
  std::string text = "the tables are";
  for (const auto table : names) text += " " + table_header(table);
  return text;
}

}  // namespace ftrt::grammar
