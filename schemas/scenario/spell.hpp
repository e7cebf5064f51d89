#pragma once

#include <cstddef>
#include <optional>
#include <schemas/scenario/grammar.hpp>
#include <string>
#include <string_view>

namespace ftrt::grammar {

// A TOML basic string, quotes included; every control character and byte that could hurt a terminal
// is escaped. `text` should be UTF-8.
[[nodiscard]] std::string quote(std::string_view text);

// The shortest decimal that reads back to the same double: "0.1", "1e-08", "65536".
[[nodiscard]] std::string short_number(double value);

// The same as TOML spells it, so that it is seen to be no integer: "65536.0".
[[nodiscard]] std::string float_number(double value);

// The TOML spelling of a key's value. Nothing where the key is absent from its chaos entry, or
// where another key of the entry already says it (`rank` beside `ranks`).
[[nodiscard]] std::optional<std::string> spell_value(const key_spec& key, const scenario& values,
                                                     std::size_t entry = 0);

// Whether a key outside [[chaos]] has the same value in both, floats compared by ==.
[[nodiscard]] bool same_value(const key_spec& key, const scenario& a, const scenario& b);

}  // namespace ftrt::grammar
