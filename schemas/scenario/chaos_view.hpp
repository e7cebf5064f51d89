#pragma once

#include <ftrt/scenario.hpp>
#include <schemas/scenario/draft.hpp>
#include <schemas/scenario/grammar.hpp>
#include <string>
#include <string_view>
#include <utility>

// What the rules over [[chaos]] entries look at them through.
namespace ftrt::grammar {

// One entry with the names of its keys: "chaos[1].rank".
struct chaos_view {
  draft& of;
  const chaos_entry& entry;
  std::string prefix;

  [[nodiscard]] std::string name(std::string_view key) const { return prefix + std::string{key}; }
  [[nodiscard]] bool given(std::string_view key) const { return of.given(name(key)); }
  [[nodiscard]] bool sound(std::string_view key) const { return of.sound(name(key)); }
  // It has a kind that can be read.
  [[nodiscard]] bool has_kind() const { return given("kind") && sound("kind"); }
  // Complains about `key`; where that is not given, at the kind.
  void refuse(std::string_view key, complaint what) const {
    of.complain_at(name(key), {name("kind")}, std::move(what));
  }
};

template <class Check>
void for_each_entry(draft& of, Check check) {
  for (std::size_t i = 0; i < of.values.chaos.size(); ++i) {
    check(chaos_view{of, of.values.chaos[i], "chaos[" + std::to_string(i) + "]."});
  }
}

inline std::string_view name_of(chaos_kind kind) {
  return find_key(chaos_table, "kind")->choices[static_cast<std::size_t>(kind)];
}

// Its worker goes on, with a wrong number.
inline bool goes_wrong(chaos_kind kind) {
  return kind == chaos_kind::nan || kind == chaos_kind::flip_bit;
}

// It happens to the workers of ranks.
inline bool strikes_workers(chaos_kind kind) {
  return kind == chaos_kind::kill || kind == chaos_kind::stop || kind == chaos_kind::slow ||
         kind == chaos_kind::poison || goes_wrong(kind);
}

// Rules over keys that mean something to some kinds only (chaos_keys.cpp).
void kinds_have_what_they_need(draft& of);
void only_numbers_have_a_target(draft& of);
void only_signals_have_a_phase(draft& of);
void other_keys_belong_to_their_kind(draft& of);

}  // namespace ftrt::grammar
