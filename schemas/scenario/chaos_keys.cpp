// Keys of a [[chaos]] entry that mean something to some kinds only.

#include <array>
#include <schemas/scenario/chaos_view.hpp>
#include <schemas/scenario/spell.hpp>

namespace ftrt::grammar {
namespace {

// A key of one kind, that this kind cannot do without or can.
struct key_of_kind {
  std::string_view key;
  chaos_kind kind;
  bool needed;
  const char* example;
};
constexpr std::array keys_of_kinds{
    key_of_kind{"delay", chaos_kind::slow, true, "delay = \"20ms\""},
    key_of_kind{"iterations", chaos_kind::slow, false, ""},
    key_of_kind{"by", chaos_kind::clock_jump, true, "by = \"8h\""},
};

}  // namespace

void kinds_have_what_they_need(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind()) return;
    for (const auto& row : keys_of_kinds) {
      if (!row.needed || row.kind != v.entry.kind || v.given(row.key) || !v.sound(row.key))
        continue;
      v.refuse(row.key, {"`" + std::string{row.key} + "` with kind = " + quote(name_of(row.kind)),
                         "none", std::string{"for example "} + row.example});
    }
  });
}

// The default is fine anywhere: a resolved scenario spells every value.
void only_numbers_have_a_target(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || !v.sound("target")) return;
    if (goes_wrong(v.entry.kind) || v.entry.target == chaos_target::gradient) return;
    v.refuse("target", {"no target with kind = " + quote(name_of(v.entry.kind)), "one",
                        "numbers go wrong with kind = \"nan\" or \"flip_bit\""});
  });
}

void only_signals_have_a_phase(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || !v.sound("in") || v.entry.in == chaos_phase::any) return;
    if (v.entry.kind == chaos_kind::kill || v.entry.kind == chaos_kind::stop) return;
    v.refuse("in", {"no `in` with kind = " + quote(name_of(v.entry.kind)), "one",
                    "a worker meets kind = \"kill\" or \"stop\" in a phase"});
  });
}

void other_keys_belong_to_their_kind(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind()) return;
    for (const auto& row : keys_of_kinds) {
      if (row.kind == v.entry.kind || !v.given(row.key) || !v.sound(row.key)) continue;
      v.refuse(row.key,
               {"no `" + std::string{row.key} + "` with kind = " + quote(name_of(v.entry.kind)),
                "one", "it belongs to kind = " + quote(name_of(row.kind))});
    }
  });
}

}  // namespace ftrt::grammar
