#include <schemas/scenario/convert.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <schemas/scenario/nearest.hpp>
#include <schemas/scenario/show.hpp>
#include <schemas/scenario/spell.hpp>
#include <schemas/scenario/units.hpp>

namespace ftrt::grammar {
namespace {

constexpr std::size_t longest_word = 64;
constexpr std::size_t longest_list = 1024;

using refusal = std::optional<complaint>;

refusal refuse(const key_spec& key, const toml::node& node, std::string hint = {}) {
  return complaint{expected(key), show(node), std::move(hint)};
}

bool in_range(const limits& range, double value) {
  const bool low = range.low_open ? value > range.low : value >= range.low;
  const bool high = range.high_open ? value < range.high : value <= range.high;
  return low && high;
}

bool is_word(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= longest_word && std::ranges::all_of(text, fits) &&
         text.front() != '.' && text.front() != '-';
}

// The row of the table says which C++ type a value type can meet; anything else is our own bug.
template <class T>
T& target(const key_spec& key, scenario& values, std::size_t entry) {
  const auto place = key.at(values, entry);
  auto* const* pointer = std::get_if<T*>(&place);
  FTRT_ASSERT(pointer != nullptr);
  return **pointer;
}

template <class Value>
struct store {
  Value value;
  bool operator()(Value* to) const { return *to = value, true; }
  bool operator()(std::optional<Value>* to) const { return *to = value, true; }
  bool operator()(auto* to) const {
    using To = std::remove_pointer_t<decltype(to)>;
    if constexpr (std::is_same_v<Value, std::uint64_t> && std::is_same_v<To, std::uint32_t>) {
      FTRT_ASSERT(value <= std::numeric_limits<std::uint32_t>::max());
      return *to = static_cast<std::uint32_t>(value), true;
    }
    return false;
  }
};

template <class Value>
void put(const key_spec& key, scenario& values, std::size_t entry, Value value) {
  FTRT_ASSERT(std::visit(store<Value>{std::move(value)}, key.at(values, entry)));
}

refusal take_word(const key_spec& key, const toml::node& node, scenario& values) {
  const auto text = node.value_exact<std::string>();
  if (!text || !is_word(*text)) return refuse(key, node);
  target<std::string>(key, values, 0) = *text;
  return std::nullopt;
}

// A registered model may have any name, but hardly one that is a slip of a built-in's.
refusal take_kind(const key_spec& key, const toml::node& node, scenario& values) {
  const auto text = node.value_exact<std::string>();
  if (!text || !is_word(*text)) return refuse(key, node);
  for (const auto choice : key.choices) {
    if (*text == choice || edit_distance(*text, choice) > 1) continue;
    if (std::ranges::find(key.choices, std::string_view{*text}) != key.choices.end()) continue;
    return refuse(key, node, "did you mean " + quote(choice) + "?");
  }
  target<std::string>(key, values, 0) = *text;
  return std::nullopt;
}

refusal take_path(const key_spec& key, const toml::node& node, scenario& values) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty() || text->find('\0') != std::string::npos) return refuse(key, node);
  target<std::filesystem::path>(key, values, 0) = *text;
  return std::nullopt;
}

struct choose {
  const key_spec& key;
  std::size_t index;
  bool operator()(std::string* to) const { return *to = key.choices[index], true; }
  bool operator()(auto* to) const {
    using To = std::remove_pointer_t<decltype(to)>;
    if constexpr (std::is_enum_v<To>) return *to = static_cast<To>(index), true;
    return false;
  }
};

// What people write who know it from elsewhere, where the nearest name would mislead.
struct synonym {
  std::string_view found;
  std::string_view meant;
};
constexpr std::array synonyms{
    synonym{"gpu", "cuda"},       synonym{"float16", "fp16"}, synonym{"half", "fp16"},
    synonym{"bfloat16", "bf16"},  synonym{"none", "off"},     synonym{"linear", "constant"},
    synonym{"kill_rank", "kill"}, synonym{"ignore", "drop"},
};

std::optional<std::string_view> meant(const key_spec& key, std::string_view found) {
  for (const auto& row : synonyms) {
    const bool fits = std::ranges::find(key.choices, row.meant) != key.choices.end();
    if (fits && row.found == found) return row.meant;
  }
  return nearest(found, key.choices);
}

refusal take_choice(const key_spec& key, const toml::node& node, scenario& values,
                    std::size_t entry) {
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node);
  const auto found = std::ranges::find(key.choices, std::string_view{*text});
  if (found == key.choices.end()) {
    const auto close = meant(key, *text);
    return refuse(key, node, close ? "did you mean " + quote(*close) + "?" : "");
  }
  const auto index = static_cast<std::size_t>(found - key.choices.begin());
  FTRT_ASSERT(std::visit(choose{key, index}, key.at(values, entry)));
  return std::nullopt;
}

std::string integer_hint(const toml::node& node) {
  if (const auto number = node.value_exact<double>()) {
    if (std::isfinite(*number) && std::floor(*number) == *number && std::abs(*number) < 1e15) {
      return "write " + std::to_string(static_cast<std::int64_t>(*number));
    }
  }
  const auto text = node.value_exact<std::string>();
  const bool digits = text && !text->empty() && text->size() < 20 &&
                      text->find_first_not_of("0123456789") == std::string::npos;
  return digits ? "write " + *text + ", without quotes" : "";
}

refusal take_integer(const key_spec& key, const toml::node& node, scenario& values,
                     std::size_t entry) {
  const auto number = node.value_exact<std::int64_t>();
  if (!number || !in_range(key.range, static_cast<double>(*number)) || *number < 0) {
    return refuse(key, node, number ? "" : integer_hint(node));
  }
  put(key, values, entry, static_cast<std::uint64_t>(*number));
  return std::nullopt;
}

refusal take_number(const key_spec& key, const toml::node& node, scenario& values) {
  if (!node.is_number())
    return refuse(key, node, node.is_string() ? "write it without quotes" : "");
  const auto number = node.value<double>();
  if (!number || !std::isfinite(*number) || !in_range(key.range, *number)) {
    return refuse(key, node);
  }
  target<double>(key, values, 0) = *number;
  return std::nullopt;
}

refusal take_boolean(const key_spec& key, const toml::node& node, scenario& values) {
  const auto value = node.value_exact<bool>();
  if (!value) {
    const auto number = node.value_exact<std::int64_t>();
    const auto text = node.value_exact<std::string>();
    std::string hint;
    if (number && *number == 1) hint = "write true";
    if (number && *number == 0) hint = "write false";
    if (text && (*text == "true" || *text == "false")) hint = "write it without quotes";
    return refuse(key, node, hint);
  }
  target<bool>(key, values, 0) = *value;
  return std::nullopt;
}

refusal take_duration(const key_spec& key, const toml::node& node, scenario& values,
                      std::size_t entry) {
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node, node.is_number() ? bare_duration_hint(show(node)) : "");
  const auto value = parse_duration(*text);
  if (!value) return refuse(key, node, duration_hint(*text));
  if (!in_range(key.range, static_cast<double>(value->count()))) return refuse(key, node);
  put(key, values, entry, *value);
  return std::nullopt;
}

refusal take_size(const key_spec& key, const toml::node& node, scenario& values) {
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node, node.is_number() ? bare_size_hint(show(node)) : "");
  const auto value = parse_size(*text);
  if (!value) return refuse(key, node, size_hint(*text));
  if (!in_range(key.range, static_cast<double>(*value))) return refuse(key, node);
  put(key, values, 0, *value);
  return std::nullopt;
}

// All elements as integers in `range`; nothing where one of them is something else.
std::optional<std::vector<std::int64_t>> integers_of(const toml::node& node, const limits& range) {
  const auto* array = node.as_array();
  if (array == nullptr || array->size() > longest_list) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const auto& element : *array) {
    const auto number = element.value_exact<std::int64_t>();
    if (!number || !in_range(range, static_cast<double>(*number))) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

refusal take_integers(const key_spec& key, const toml::node& node, scenario& values) {
  auto numbers = integers_of(node, key.range);
  if (!numbers) return refuse(key, node);
  target<std::vector<std::int64_t>>(key, values, 0) = std::move(*numbers);
  return std::nullopt;
}

// Any 32-bit number here; the rules compare it with the world, whose size may stand further down.
constexpr limits rank_range{.low = 0, .high = 4294967295.0};

refusal take_rank(const key_spec& key, const toml::node& node, scenario& values,
                  std::size_t entry) {
  const auto number = node.value_exact<std::int64_t>();
  if (!number || !in_range(rank_range, static_cast<double>(*number))) {
    const bool list = node.is_array();
    return refuse(key, node, list ? "a list belongs to `ranks`" : integer_hint(node));
  }
  target<chaos_entry>(key, values, entry).ranks = {static_cast<std::uint32_t>(*number)};
  return std::nullopt;
}

refusal take_ranks(const key_spec& key, const toml::node& node, scenario& values,
                   std::size_t entry) {
  auto& to = target<chaos_entry>(key, values, entry);
  if (node.value_exact<std::string>() == "all") return to.all_ranks = true, std::nullopt;
  const auto numbers = integers_of(node, rank_range);
  if (!numbers || numbers->empty()) {
    return refuse(key, node, node.is_integer() ? "one rank belongs to `rank`" : "");
  }
  to.ranks.clear();
  for (const auto number : *numbers) to.ranks.push_back(static_cast<std::uint32_t>(number));
  return std::nullopt;
}

refusal take_every(const key_spec& key, const toml::node& node, scenario& values,
                   std::size_t entry) {
  auto& to = target<chaos_entry>(key, values, entry);
  if (const auto number = node.value_exact<std::int64_t>()) {
    if (*number < 1) return refuse(key, node);
    to.every_iterations = static_cast<std::uint64_t>(*number);
    return std::nullopt;
  }
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node);
  const auto value = parse_duration(*text);
  if (!value) return refuse(key, node, duration_hint(*text));
  if (!in_range(key.range, static_cast<double>(value->count()))) return refuse(key, node);
  to.every = *value;
  return std::nullopt;
}

refusal take_jump(const key_spec& key, const toml::node& node, scenario& values,
                  std::size_t entry) {
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node, node.is_number() ? bare_duration_hint(show(node)) : "");
  const bool back = text->starts_with('-');
  const auto size = parse_duration(std::string_view{*text}.substr(back ? 1 : 0));
  if (!size) return refuse(key, node, duration_hint(*text));
  const auto value = back ? -*size : *size;
  const bool none = value.count() == 0;
  if (none || !in_range(key.range, static_cast<double>(value.count()))) return refuse(key, node);
  put(key, values, entry, value);
  return std::nullopt;
}

refusal take_digest(const key_spec& key, const toml::node& node, scenario& values) {
  constexpr std::size_t digits = 32;
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(key, node);
  const bool hex =
      text->size() == digits && text->find_first_not_of("0123456789abcdef") == std::string::npos;
  const bool chosen = std::ranges::find(key.choices, std::string_view{*text}) != key.choices.end();
  if (!hex && !chosen) {
    const auto close = nearest(*text, key.choices);
    return refuse(key, node, close ? "did you mean " + quote(*close) + "?" : "");
  }
  target<std::string>(key, values, 0) = *text;
  return std::nullopt;
}

refusal take_actor(const key_spec& key, const toml::node& node, scenario& values,
                   std::size_t entry) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty()) return refuse(key, node);
  target<std::string>(key, values, entry) = *text;
  return std::nullopt;
}

}  // namespace

refusal convert(const key_spec& key, const toml::node& node, scenario& values, std::size_t entry) {
  switch (key.type) {
    case value_type::word:
      return take_word(key, node, values);
    case value_type::kind:
      return take_kind(key, node, values);
    case value_type::path:
      return take_path(key, node, values);
    case value_type::choice:
      return take_choice(key, node, values, entry);
    case value_type::integer:
      return take_integer(key, node, values, entry);
    case value_type::number:
      return take_number(key, node, values);
    case value_type::boolean:
      return take_boolean(key, node, values);
    case value_type::duration:
      return take_duration(key, node, values, entry);
    case value_type::size:
      return take_size(key, node, values);
    case value_type::integers:
      return take_integers(key, node, values);
    case value_type::rank:
      return take_rank(key, node, values, entry);
    case value_type::ranks:
      return take_ranks(key, node, values, entry);
    case value_type::every:
      return take_every(key, node, values, entry);
    case value_type::jump:
      return take_jump(key, node, values, entry);
    case value_type::digest:
      return take_digest(key, node, values);
    case value_type::actor:
      return take_actor(key, node, values, entry);
  }
  return std::nullopt;
}

}  // namespace ftrt::grammar
