#include <schemas/scenario/reader.hpp>

#include <toml++/toml.h>
#include <algorithm>
#include <schemas/scenario/nearest.hpp>
#include <schemas/scenario/show.hpp>

namespace ftrt::grammar {
namespace {

constexpr std::size_t most_chaos_entries = 1000;

place place_of(const draft& to, const toml::source_region& source) {
  return {to.name(), source.begin.line, value_origin::file};
}

std::string header(std::string_view table) {
  const std::string name{table};
  return table == chaos_table ? "[[" + name + "]]" : "[" + name + "]";
}

void unknown_key(draft& to, std::string_view table, std::size_t entry, const toml::key& key) {
  if (to.full()) return;
  std::string name{table};
  if (table == chaos_table) name += "[" + std::to_string(entry) + "]";
  const auto shown = show(key.str());
  if (const auto close = nearest(key.str(), key_names(table))) {
    to.suspect(name + "." + std::string{*close});
  }
  to.complain(name + "." + shown.substr(1, shown.size() - 2), place_of(to, key.source()),
              {"a key of " + header(table), shown, unknown_key_hint(table, key.str())});
}

void read_table(draft& to, std::string_view table, const toml::table& content,
                std::size_t entry = 0) {
  for (const auto& [key, node] : content) {
    const auto* spec = find_key(table, key.str());
    if (spec == nullptr) {
      unknown_key(to, table, entry, key);
    } else {
      to.set(*spec, node, place_of(to, key.source()), entry);
    }
  }
}

void read_chaos(draft& to, const toml::key& key, const toml::node& node) {
  const auto where = place_of(to, key.source());
  const auto* entries = node.as_array();
  const bool tables = entries != nullptr && (entries->empty() || entries->is_array_of_tables());
  if (!tables || entries->size() > most_chaos_entries) {
    const auto found = node.is_table() ? "[chaos]" : show(node);
    const auto hint = node.is_table() ? "write [[chaos]], with two brackets, for each fault" : "";
    return to.complain("chaos", where, {"[[chaos]] tables, at most 1000", found, hint});
  }
  to.values.chaos.resize(entries->size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const auto& entry = *(*entries)[i].as_table();
    to.note_table("chaos[" + std::to_string(i) + "]", place_of(to, entry.source()));
    read_table(to, chaos_table, entry, i);
  }
}

void read_item(draft& to, const toml::key& key, const toml::node& node) {
  if (to.full()) return;
  const auto name = std::string{key.str()};
  const auto where = place_of(to, key.source());
  const auto shown = show(name);
  const auto plain = shown.substr(1, shown.size() - 2);
  if (name == chaos_table) return read_chaos(to, key, node);
  if (is_table(name) && node.is_table()) {
    to.note_table(name, where);
    return read_table(to, name, *node.as_table());
  }
  if (is_table(name)) {
    to.suspect(name);
    const auto found = node.is_array_of_tables() ? "[[" + name + "]]" : show(node);
    return to.complain(name, where, {"a table, [" + name + "]", found, {}});
  }
  if (node.is_table() || node.is_array_of_tables()) {
    if (const auto close = nearest(name, table_names())) to.suspect(std::string{*close});
    return to.complain(plain, where,
                       {"a table of a scenario", "[" + plain + "]", unknown_table_hint(name)});
  }
  const auto hint = unknown_key_hint({}, name);
  to.complain(plain, where,
              {"a key inside a table", "`" + plain + "` outside of all tables", hint});
}

// toml++ builds a table in its own order of keys; people read diagnostics and files by line, which
// the draft sorts by, so the order here does not matter.
void read_root(draft& to, const toml::table& root) {
  for (const auto& [key, node] : root) read_item(to, key, node);
}

}  // namespace

bool read_text(std::string_view toml, draft& to) {
  try {
    read_root(to, toml::parse(toml, to.name()));
    return true;
  } catch (const toml::parse_error& fault) {
    const place where{to.name(), fault.source().begin.line, value_origin::file};
    std::string found{fault.description()};
    std::ranges::replace_if(
        found, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    to.complain({}, where, {"valid TOML", found, {}});
    return false;
  }
}

}  // namespace ftrt::grammar
