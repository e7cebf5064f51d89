#include <schemas/scenario/spell.hpp>

#include <array>
#include <charconv>
#include <cstdio>
#include <schemas/scenario/units.hpp>
#include <type_traits>

namespace ftrt::grammar {
namespace {

template <class Number>
std::string list(const std::vector<Number>& numbers) {
  std::string text = "[";
  for (const auto number : numbers) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(number);
  }
  return text + "]";
}

std::optional<std::string> spell_entry(const key_spec& key, const chaos_entry& entry) {
  if (key.type == value_type::every) {
    if (!entry.every) return std::nullopt;
    return quote(spell_duration(*entry.every));
  }
  if (key.type == value_type::rank) {
    if (entry.all_ranks || entry.ranks.size() != 1) return std::nullopt;
    return std::to_string(entry.ranks.front());
  }
  if (entry.all_ranks) return quote("all");
  if (entry.ranks.size() < 2) return std::nullopt;
  return list(entry.ranks);
}

struct speller {
  const key_spec& key;
  using text = std::optional<std::string>;

  text operator()(const std::string* value) const {
    const bool may_be_none = key.type == value_type::actor || key.table == expect_table;
    if (value->empty() && may_be_none) return std::nullopt;
    return quote(*value);
  }
  // An empty path is how the struct says "none"; the grammar knows no such value.
  text operator()(const std::filesystem::path* value) const {
    return value->empty() ? text{} : quote(value->string());
  }
  text operator()(const bool* value) const { return *value ? "true" : "false"; }
  text operator()(const double* value) const { return float_number(*value); }
  text operator()(const std::uint32_t* value) const { return std::to_string(*value); }
  text operator()(const std::uint64_t* value) const {
    return key.type == value_type::size ? quote(spell_size(*value)) : std::to_string(*value);
  }
  text operator()(const std::vector<std::int64_t>* value) const { return list(*value); }
  text operator()(const std::chrono::nanoseconds* value) const {
    const bool back = value->count() < 0;
    return quote((back ? "-" : "") + spell_duration(back ? -*value : *value));
  }
  template <class Value>
  text operator()(const std::optional<Value>* value) const {
    return *value ? (*this)(&**value) : std::nullopt;
  }
  text operator()(const chaos_entry* value) const { return spell_entry(key, *value); }

  template <class Enum>
  requires std::is_enum_v<Enum> text operator()(const Enum* value) const {
    const auto index = static_cast<std::size_t>(*value);
    FTRT_ASSERT(index < key.choices.size());
    return quote(key.choices[index]);
  }
};

}  // namespace

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", byte);
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string short_number(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

std::string float_number(double value) {
  auto text = short_number(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::optional<std::string> spell_value(const key_spec& key, const scenario& values,
                                       std::size_t entry) {
  // The table's accessors serve reading and writing; nothing is written through this one.
  auto& readable = const_cast<scenario&>(values);
  return std::visit(speller{key}, key.at(readable, entry));
}

bool same_value(const key_spec& key, const scenario& a, const scenario& b) {
  const auto same = [](const auto* left, const auto* right) {
    if constexpr (std::is_same_v<decltype(left), decltype(right)>) return *left == *right;
    return false;
  };
  return std::visit(same, key.at(const_cast<scenario&>(a), 0), key.at(const_cast<scenario&>(b), 0));
}

}  // namespace ftrt::grammar
