#pragma once

#include <schemas/scenario/draft.hpp>
#include <string>
#include <string_view>

namespace ftrt::grammar {

// Reads a scenario's text into the draft. A syntax error is one complaint with its line, and then
// nothing else is read, because what follows cannot be told apart from it: false.
[[nodiscard]] bool read_text(std::string_view toml, draft& to);

// Applies one `TABLE.KEY=VALUE`. The value is TOML; what is no TOML is taken as a bare string, so
// that a shell needs no second pair of quotes: `checkpoint.verify=false`,
// `supervision.window=2min`.
void read_override(std::string_view text, draft& to);

// Whether `text` can stand in a TOML string, which is UTF-8.
[[nodiscard]] bool is_toml_text(std::string_view text);

}  // namespace ftrt::grammar
