#pragma once

#include <schemas/scenario/draft.hpp>
#include <span>
#include <string_view>

namespace ftrt::grammar {

// A rule over more than one key. Each is checked only where the keys that it reads are sound.
struct rule {
  std::string_view doc;  // one sentence for docs/scenario.md
  void (*check)(draft& of);
};

[[nodiscard]] std::span<const rule> rules();        // over the whole scenario
[[nodiscard]] std::span<const rule> chaos_rules();  // over the [[chaos]] entries

void check_rules(draft& of);

}  // namespace ftrt::grammar
