#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <initializer_list>
#include <map>
#include <schemas/scenario/convert.hpp>
#include <schemas/scenario/grammar.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt::grammar {

// Where something stands.
struct place {
  std::string file;
  std::uint32_t line = 0;
  value_origin origin = value_origin::default_value;
};

// A scenario in the making: the values so far, where each came from, and what is wrong with it.
// Lives for one parse, on one thread.
class draft {
 public:
  explicit draft(std::string_view name) : name_(name) {}

  scenario values;

  // Checks one value and takes it over, or complains.
  void set(const key_spec& key, const toml::node& node, const place& where, std::size_t entry = 0);

  void complain(std::string key, const place& where, complaint what);
  // Complains at the place that `key` was given at; where it was not, at that of the first of
  // `others` that was, else at its table's header, else at the file.
  void complain_at(const std::string& key, std::initializer_list<std::string_view> others,
                   complaint what);

  void note_table(const std::string& table, const place& where) { tables_.emplace(table, where); }
  // A key or table that was probably meant by a misspelt one: as good as broken.
  void suspect(std::string name) { broken_.insert(std::move(name)); }
  // Forgets all chaos entries, what is expected of them, and what was wrong with either.
  void drop_chaos(const place& where);

  // Whether the key was given at all (in the file or by an override), well or not.
  [[nodiscard]] bool given(const std::string& key) const { return given_.contains(key); }
  // False where a key or its table has a fault of its own, so that a rule over it would confuse.
  [[nodiscard]] bool sound(const std::string& key) const;
  // nullptr: the default.
  [[nodiscard]] const place* origin(const std::string& key) const;
  [[nodiscard]] const std::string& name() const { return name_; }

  // All complaints: by line, those of overrides last.
  [[nodiscard]] std::vector<diagnostic> take_faults();
  [[nodiscard]] bool flawless() const { return faults_.empty(); }
  // So many complaints that nobody reads on: further ones are dropped, and guessing is a waste.
  [[nodiscard]] bool full() const { return faults_.size() > most_faults; }

 private:
  static constexpr std::size_t most_faults = 500;

  std::string name_;
  std::map<std::string, place> given_;
  std::map<std::string, place> tables_;
  std::set<std::string> broken_;
  std::vector<diagnostic> faults_;
};

}  // namespace ftrt::grammar
