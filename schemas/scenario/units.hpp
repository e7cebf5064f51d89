#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ftrt::grammar {

// The unit strings of a scenario: "200ms", "1.5s", "2min", "4MiB", "1GB". Pure functions.
//
// A number is decimal digits with at most six decimals, and its unit follows without a space. The
// result is exact: what is no whole number of nanoseconds or bytes is refused, never rounded.

// Nothing where `text` is not a duration or does not fit; then duration_hint() says why.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// What to write instead of a malformed text: `the units are ns, us, ms, s, min, h`.
[[nodiscard]] std::string duration_hint(std::string_view text);
[[nodiscard]] std::string size_hint(std::string_view text);

// What to write instead of a bare number: `with a unit: "200ms" or "200s" (= 3.33min)`.
[[nodiscard]] std::string bare_duration_hint(std::string_view number);
[[nodiscard]] std::string bare_size_hint(std::string_view number);

// The shortest exact spelling: 60 s is "1min", 4194304 is "4MiB".
[[nodiscard]] std::string spell_duration(std::chrono::nanoseconds value);
[[nodiscard]] std::string spell_size(std::uint64_t bytes);

// The units, smallest first, for the documentation: "ns, us, ms, s, min, h".
[[nodiscard]] std::string duration_units();
[[nodiscard]] std::string size_units();

}  // namespace ftrt::grammar
