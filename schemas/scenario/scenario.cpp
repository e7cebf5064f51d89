#include <ftrt/scenario.hpp>

#include <algorithm>
#include <fstream>
#include <schemas/scenario/draft.hpp>
#include <schemas/scenario/reader.hpp>
#include <schemas/scenario/rules.hpp>
#include <schemas/scenario/show.hpp>
#include <schemas/scenario/spell.hpp>

namespace ftrt {
namespace {

// Hundreds of times what a person writes.
constexpr std::size_t largest_file = 1u << 20;

std::filesystem::path normalised(const std::filesystem::path& path) {
  std::error_code failed;
  const auto full = std::filesystem::absolute(path, failed);
  return (failed ? path : full).lexically_normal();
}

void resolve_paths(grammar::draft& to, const std::filesystem::path& base) {
  auto& path = to.values.data.path;
  if (path.empty()) return;
  const auto* where = to.origin("data.path");
  const bool typed = where != nullptr && where->origin == value_origin::override_flag;
  path = normalised(typed ? path : base / path);
  // The folder of the file may have any name; to_toml() must be able to write it.
  if (grammar::is_toml_text(path.string())) return;
  to.complain_at("data.path", {}, {"a path in UTF-8", grammar::show(path.string()), {}});
}

std::string spelled(const grammar::place* where) {
  if (where == nullptr) return "default";
  return where->line == 0 ? where->file : where->file + ":" + std::to_string(where->line);
}

// A chaos entry may say one thing with either of two keys, and is spelled back with the plainer
// one.
const grammar::place* origin_of(const grammar::draft& from, const std::string& name) {
  if (const auto* where = from.origin(name)) return where;
  if (name.ends_with("].rank")) return from.origin(name + "s");
  constexpr std::string_view iterations = "_iterations";
  const bool every = name.ends_with("].every_iterations");
  return every ? from.origin(name.substr(0, name.size() - iterations.size())) : nullptr;
}

void list_value(const grammar::draft& from, const grammar::key_spec& key, std::size_t entry,
                std::vector<resolved_value>& list) {
  const auto value = grammar::spell_value(key, from.values, entry);
  if (!value) return;
  const auto name = grammar::full_name(key, entry);
  const auto* where = origin_of(from, name);
  const auto origin = where == nullptr ? value_origin::default_value : where->origin;
  list.push_back({name, *value, origin, spelled(where)});
}

std::vector<resolved_value> resolved(const grammar::draft& from) {
  std::vector<resolved_value> list;
  for (const auto& key : grammar::keys()) {
    if (key.table != grammar::chaos_table) list_value(from, key, 0, list);
  }
  for (std::size_t entry = 0; entry < from.values.chaos.size(); ++entry) {
    for (const auto& key : grammar::keys()) {
      if (key.table == grammar::chaos_table) list_value(from, key, entry, list);
    }
  }
  return list;
}

tl::unexpected<std::vector<diagnostic>> refused(std::string_view name, std::string expected,
                                                std::string found, std::string hint = {}) {
  std::vector<diagnostic> faults(1);
  faults.front() = {std::string{name}, 0, {}, std::move(expected), std::move(found),
                    std::move(hint)};
  return tl::unexpected(std::move(faults));
}

checked<std::string> read_file(const std::filesystem::path& file) {
  const auto name = file.string();
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  if (!std::filesystem::exists(status)) {
    return refused(name, "a scenario file", "no such file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    return refused(name, "a scenario file", "something that is no regular file");
  }
  std::ifstream stream{file, std::ios::binary};
  std::string text(largest_file + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    return refused(name, "a file that can be read", "it cannot be opened or read",
                   "look at its owner and mode");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

void write_table(std::string& text, std::string_view header, std::string_view table,
                 const scenario& values, std::size_t entry) {
  text += (text.empty() ? "" : "\n") + std::string{header} + "\n";
  for (const auto& key : grammar::keys()) {
    if (key.table != table) continue;
    const auto value = grammar::spell_value(key, values, entry);
    if (!value) continue;
    text += std::string{key.name} + " = " + *value + "\n";
  }
}

}  // namespace

std::string diagnostic::describe() const {
  std::string text = file;
  if (line != 0) text += ":" + std::to_string(line);
  if (!text.empty()) text += ": ";
  if (!key.empty()) text += key + ": ";
  text += "expected " + expected + ", found " + found;
  if (!hint.empty()) text += "; " + hint;
  return text;
}

checked<loaded_scenario> load_scenario(const std::filesystem::path& file,
                                       const std::vector<std::string>& overrides) {
  const auto text = read_file(file);
  if (!text) return tl::unexpected(text.error());
  return parse_scenario(*text, file.string(), file.parent_path(), overrides);
}

checked<loaded_scenario> parse_scenario(std::string_view toml, std::string_view name,
                                        const std::filesystem::path& base,
                                        const std::vector<std::string>& overrides) {
  if (toml.size() > largest_file) {
    return refused(name, "a scenario of at most 1 MiB", "a larger one");
  }
  grammar::draft draft{name};
  const bool complete = grammar::read_text(toml, draft);
  for (const auto& text : overrides) grammar::read_override(text, draft);
  if (complete) grammar::check_rules(draft);
  resolve_paths(draft, base);
  if (!draft.flawless()) return tl::unexpected(draft.take_faults());
  auto list = resolved(draft);
  return loaded_scenario{std::move(draft.values), std::move(list)};
}

std::string to_toml(const scenario& values) {
  std::string text;
  for (const auto& table : grammar::tables()) {
    if (table.name == grammar::chaos_table) continue;
    write_table(text, "[" + std::string{table.name} + "]", table.name, values, 0);
  }
  for (std::size_t entry = 0; entry < values.chaos.size(); ++entry) {
    write_table(text, "[[chaos]]", grammar::chaos_table, values, entry);
  }
  return text;
}

std::vector<diagnostic> check_scenario(const scenario& values) {
  const auto parsed = parse_scenario(to_toml(values), {}, {});
  if (parsed) return {};
  auto faults = parsed.error();
  for (auto& fault : faults) fault.line = 0;
  return faults;
}

bool operator==(const scenario& a, const scenario& b) {
  if (a.chaos != b.chaos) return false;
  return std::ranges::all_of(grammar::keys(), [&](const grammar::key_spec& key) {
    return key.table == grammar::chaos_table || grammar::same_value(key, a, b);
  });
}

}  // namespace ftrt
