#include <schemas/scenario/draft.hpp>

#include <algorithm>
#include <utility>

namespace ftrt::grammar {
namespace {

// Faults, and what is expected of them.
bool is_chaos(const std::string& key) {
  return key.starts_with(chaos_table) || key.starts_with(expect_table);
}

}  // namespace

void draft::set(const key_spec& key, const toml::node& node, const place& where,
                std::size_t entry) {
  const auto name = full_name(key, entry);
  given_.insert_or_assign(name, where);
  auto fault = convert(key, node, values, entry);
  if (!fault) return void(broken_.erase(name));
  broken_.insert(name);
  complain(name, where, std::move(*fault));
}

void draft::complain(std::string key, const place& where, complaint what) {
  if (full()) return;
  if (faults_.size() == most_faults) {
    faults_.push_back({name_, 0, {}, "fewer faults", "more than 500; the rest is not shown", {}});
    return;
  }
  faults_.push_back({where.file, where.line, std::move(key), std::move(what.expected),
                     std::move(what.found), std::move(what.hint)});
}

void draft::complain_at(const std::string& key, std::initializer_list<std::string_view> others,
                        complaint what) {
  if (const auto* where = origin(key)) return complain(key, *where, std::move(what));
  for (const auto other : others) {
    if (const auto* where = origin(std::string{other})) {
      return complain(key, *where, std::move(what));
    }
  }
  const auto table = tables_.find(key.substr(0, key.find('.')));
  complain(key, table == tables_.end() ? place{name_} : table->second, std::move(what));
}

void draft::drop_chaos(const place& where) {
  values.chaos.clear();
  values.expect = {};
  std::erase_if(given_, [](const auto& item) { return is_chaos(item.first); });
  std::erase_if(broken_, is_chaos);
  std::erase_if(faults_, [](const diagnostic& fault) { return is_chaos(fault.key); });
  given_.insert_or_assign(std::string{chaos_table}, where);
}

bool draft::sound(const std::string& key) const {
  return !broken_.contains(key) && !broken_.contains(key.substr(0, key.find('.')));
}

const place* draft::origin(const std::string& key) const {
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

std::vector<diagnostic> draft::take_faults() {
  const auto order = [this](const diagnostic& fault) {
    const bool elsewhere = fault.file != name_;
    const bool nowhere = fault.line == 0;
    return std::tuple{elsewhere, nowhere, fault.line};
  };
  std::ranges::stable_sort(faults_, {}, order);
  return std::exchange(faults_, {});
}

}  // namespace ftrt::grammar
