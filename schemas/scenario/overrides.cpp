#include <schemas/scenario/reader.hpp>

#include <toml++/toml.h>
#include <algorithm>
#include <schemas/scenario/show.hpp>
#include <schemas/scenario/spell.hpp>

namespace ftrt::grammar {
namespace {

const place override_place{"--set", 0, value_origin::override_flag};

bool takes_text(value_type type) {
  using enum value_type;
  return type == word || type == kind || type == path || type == choice || type == duration ||
         type == size || type == jump || type == digest;
}

// `text` as one TOML value; an empty table where it is none, or is more than one.
toml::table parse_value(std::string_view text) {
  try {
    auto parsed = toml::parse("value = " + std::string{text});
    if (parsed.size() == 1 && text.find('\n') == std::string_view::npos) return parsed;
  } catch (const toml::parse_error&) {
    // Not TOML: the caller takes it as a bare string.
  }
  return {};
}

toml::table as_string(std::string_view text) {
  return toml::table{{"value", std::string{text}}};
}

// A key that takes text gets it as it was typed, even where TOML would see a number: run.name=7.
// But a bare number for a duration stays one, so that the message can say which unit is missing.
toml::table value_for(const key_spec& key, std::string_view text) {
  auto parsed = parse_value(text);
  if (parsed.empty()) return as_string(text);
  const auto& value = *parsed.get("value");
  const bool unit = key.type == value_type::duration || key.type == value_type::size;
  const bool keep = value.is_string() || !takes_text(key.type) || (unit && value.is_number());
  return keep ? std::move(parsed) : as_string(text);
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string{text.substr(first, text.find_last_not_of(" \t") - first + 1)};
}

std::string plain(std::string_view text) {
  const auto shown = show(text);
  return shown.substr(1, shown.size() - 2);
}

void override_chaos(const std::string& name, std::string_view value, draft& to) {
  const auto parsed = parse_value(value);
  const auto* list = parsed.empty() ? nullptr : parsed.get("value")->as_array();
  if (name == chaos_table && list != nullptr && list->empty()) return to.drop_chaos(override_place);
  to.complain(plain(name), override_place,
              {"`chaos=[]`, which drops all faults", show(name + "=" + std::string{value}),
               "other faults are written in the file"});
}

void unknown_override(const std::string& name, draft& to) {
  const auto dot = name.find('.');
  if (dot == std::string::npos) {
    return to.complain(plain(name), override_place,
                       {"TABLE.KEY=VALUE", show(name), unknown_key_hint({}, name)});
  }
  const auto table = name.substr(0, dot);
  if (!is_table(table)) {
    return to.complain(plain(name), override_place,
                       {"a table of a scenario", show(table), unknown_table_hint(table)});
  }
  const auto key = name.substr(dot + 1);
  to.complain(plain(name), override_place,
              {"a key of [" + table + "]", show(key), unknown_key_hint(table, key)});
}

}  // namespace

bool is_toml_text(std::string_view text) {
  return !parse_value(quote(text)).empty();
}

void read_override(std::string_view text, draft& to) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return to.complain({}, override_place, {"TABLE.KEY=VALUE", show(text), {}});
  }
  const auto name = trimmed(text.substr(0, equals));
  const auto value = trimmed(text.substr(equals + 1));
  if (name.starts_with(chaos_table)) return override_chaos(name, value, to);
  const auto dot = std::min(name.find('.'), name.size());
  const auto* key = find_key(name.substr(0, dot), dot < name.size() ? name.substr(dot + 1) : "");
  if (key == nullptr) return unknown_override(name, to);
  const auto parsed = value_for(*key, value);
  to.set(*key, *parsed.get("value"), override_place);
}

}  // namespace ftrt::grammar
