#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ftrt::cli {

// How values look to people. Pure functions; local time where a time is asked for.

// `text` as it may be shown on a terminal: control characters, bytes that are no UTF-8, and the
// characters that change the direction of what follows become \xNN. What a worker wrote, or a file
// is called, can so neither move the cursor nor forge a line.
[[nodiscard]] std::string printable(std::string_view text);

// Columns that `text` (UTF-8) takes, one for each character.
[[nodiscard]] std::size_t display_width(std::string_view text);
// At most `columns` characters of it.
[[nodiscard]] std::string_view clipped(std::string_view text, std::size_t columns);

[[nodiscard]] std::string format_bytes(std::uint64_t bytes);  // "1.2 MiB"
[[nodiscard]] std::string format_seconds(double seconds);     // "4.2 s", "3:07", "1:02:03"
[[nodiscard]] std::string format_milliseconds(double ms);     // "0.41 ms", "1.3 s"
[[nodiscard]] std::string format_rate(double per_second,
                                      std::string_view unit = " samples/s");  // "31.2k samples/s"
[[nodiscard]] std::string format_percent(double fraction);          // "97.83 %", "-" for NaN
[[nodiscard]] std::string format_number(double value, int digits);  // "-" for NaN

[[nodiscard]] std::string format_date(std::int64_t unix_ms);   // "2026-11-30 12:34:56", "-" for 0
[[nodiscard]] std::string format_clock(std::int64_t unix_ms);  // "12:34:56"

}  // namespace ftrt::cli
