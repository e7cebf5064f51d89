#include "tools/ftrt/text.hpp"

#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace ftrt::cli {
namespace {

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  std::array<char, 128> buffer{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  return buffer.data();
}

struct character {
  char32_t code = 0;
  std::size_t length = 0;  // 0: no well-formed UTF-8 here
};

std::size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

character decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = sequence_length(lead);
  if (length == 0 || length > text.size()) return {};
  if (length == 1) return {lead, 1};
  char32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte & 0x3F);
  }
  const char32_t smallest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < smallest || code > 0x10FFFF || surrogate) return {};
  return {code, length};
}

bool is_harmless(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !control && !direction;
}

std::string formatted_time(const char* format, std::int64_t unix_ms) {
  if (unix_ms <= 0) return "-";
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  std::array<char, 64> buffer{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "-";
  return std::string(buffer.data(), std::strftime(buffer.data(), buffer.size(), format, &parts));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const character next = decode(text);
    const std::size_t length = next.length == 0 ? 1 : next.length;
    if (next.length != 0 && is_harmless(next.code)) {
      shown.append(text.substr(0, length));
    } else {
      for (const char c : text.substr(0, length)) {
        shown += formatted("\\x%02x", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(length);
  }
  return shown;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string_view clipped(std::string_view text, std::size_t columns) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (++width > columns) return text.substr(0, i);
  }
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return formatted("%u B", static_cast<unsigned>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < units.size()) value /= 1024, ++unit;
  return formatted("%.1f %s", value, units.at(unit));
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 59.95) return formatted("%.1f s", seconds);
  if (seconds > 1e9) return "-";
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 3600) return formatted("%ld:%02ld", whole / 60, whole % 60);
  return formatted("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_milliseconds(double ms) {
  if (!std::isfinite(ms)) return "-";
  if (ms < 10) return formatted("%.2f ms", ms);
  if (ms < 1000) return formatted("%.1f ms", ms);
  return format_seconds(ms / 1000);
}

std::string format_rate(double per_second, std::string_view unit) {
  std::string text = "-";
  if (std::isfinite(per_second)) {
    text =
        per_second < 10'000 ? formatted("%.0f", per_second) : formatted("%.1fk", per_second / 1000);
  }
  return text.append(unit);
}

std::string format_percent(double fraction) {
  return std::isfinite(fraction) ? formatted("%.2f %%", fraction * 100) : "-";
}

std::string format_number(double value, int digits) {
  return std::isfinite(value) ? formatted("%.*g", digits, value) : "-";
}

std::string format_date(std::int64_t unix_ms) {
  return formatted_time("%Y-%m-%d %H:%M:%S", unix_ms);
}

std::string format_clock(std::int64_t unix_ms) {
  return formatted_time("%H:%M:%S", unix_ms);
}

}  // namespace ftrt::cli
