#include <schemas/scenario/units.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <schemas/scenario/nearest.hpp>
#include <span>
#include <vector>

namespace ftrt::grammar {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array time_units{
    unit{"ns", 1},
    unit{"us", 1'000},
    unit{"ms", 1'000'000},
    unit{"s", 1'000'000'000},
    unit{"min", 60'000'000'000},
    unit{"h", 3'600'000'000'000},
};
// spell_size() writes the binary ones, which come first among equals in people's files too.
constexpr std::array byte_units{
    unit{"B", 1},
    unit{"KiB", 1ULL << 10},
    unit{"MiB", 1ULL << 20},
    unit{"GiB", 1ULL << 30},
    unit{"TiB", 1ULL << 40},
    unit{"kB", 1'000},
    unit{"KB", 1'000},
    unit{"MB", 1'000'000},
    unit{"GB", 1'000'000'000},
    unit{"TB", 1'000'000'000'000},
};
constexpr std::size_t binary_units = 5;

// Six decimals, so that decimals x the largest unit stays below 2^63.
constexpr std::uint64_t max_decimals = 6;

struct amount {
  std::uint64_t whole = 0;
  std::uint64_t decimals = 0;  // as an integer, over `scale`
  std::uint64_t scale = 1;
  std::string_view unit_name;
};

// Reads digits from `text`, which moves past them. False where there are none or too many.
bool take_digits(std::string_view& text, std::uint64_t& value) {
  const auto length = std::min(text.size(), text.find_first_not_of("0123456789"));
  if (length == 0) return false;
  for (const char c : text.substr(0, length)) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(c - '0'), &value)) return false;
  }
  text.remove_prefix(length);
  return true;
}

std::optional<amount> split(std::string_view text) {
  amount parts;
  if (!take_digits(text, parts.whole)) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto before = text.size();
    if (!take_digits(text, parts.decimals)) return std::nullopt;
    const auto places = before - text.size();
    if (places > max_decimals) return std::nullopt;
    for (std::size_t i = 0; i < places; ++i) parts.scale *= 10;
  }
  parts.unit_name = text;
  return parts;
}

// amount x unit as a whole number; nothing where it is none or too large for 63 bits.
std::optional<std::uint64_t> multiply(const amount& parts, std::uint64_t factor) {
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(parts.whole, factor, &total)) return std::nullopt;
  const auto fraction = parts.decimals * factor;
  if (fraction % parts.scale != 0) return std::nullopt;
  if (__builtin_add_overflow(total, fraction / parts.scale, &total)) return std::nullopt;
  constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (total > limit) return std::nullopt;
  return total;
}

std::optional<std::uint64_t> parse(std::string_view text, std::span<const unit> units) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  const auto found = std::ranges::find(units, parts->unit_name, &unit::name);
  if (found == units.end()) return std::nullopt;
  return multiply(*parts, found->factor);
}

std::string spell(std::uint64_t value, std::span<const unit> units) {
  const unit* best = &units.front();
  for (const auto& candidate : units) {
    if (value != 0 && value % candidate.factor == 0) best = &candidate;
  }
  return std::to_string(value / best->factor) + std::string{best->name};
}

std::string join(std::span<const unit> units) {
  std::string text;
  for (const auto& candidate : units) {
    text += (text.empty() ? "" : ", ") + std::string{candidate.name};
  }
  return text;
}

// Spellings that the nearest unit would not explain.
struct alias {
  std::string_view found;
  std::string_view meant;
};
constexpr std::array aliases{
    alias{"m", "min"},   alias{"mins", "min"}, alias{"minute", "min"}, alias{"minutes", "min"},
    alias{"sec", "s"},   alias{"secs", "s"},   alias{"second", "s"},   alias{"seconds", "s"},
    alias{"hr", "h"},    alias{"hour", "h"},   alias{"hours", "h"},    alias{"msec", "ms"},
    alias{"usec", "us"}, alias{"nsec", "ns"},  alias{"K", "KiB"},      alias{"k", "KiB"},
    alias{"M", "MiB"},   alias{"G", "GiB"},    alias{"T", "TiB"},      alias{"bytes", "B"},
    alias{"mb", "MB"},   alias{"gb", "GB"},    alias{"kb", "kB"},
};

std::optional<std::string_view> meant(std::string_view found, std::span<const unit> units) {
  const auto known = [&](std::string_view name) {
    return std::ranges::find(units, name, &unit::name) != units.end();
  };
  for (const auto& row : aliases) {
    if (row.found == found && known(row.meant)) return row.meant;
  }
  std::vector<std::string_view> names;
  for (const auto& candidate : units) names.push_back(candidate.name);
  return nearest(found, names);
}

std::string hint(std::string_view text, std::span<const unit> units) {
  if (text.find(' ') != std::string_view::npos) {
    std::string joined{text};
    std::erase(joined, ' ');
    if (parse(joined, units)) return "write \"" + joined + "\", without a space";
  }
  const auto parts = split(text);
  if (!parts) return "write digits and a unit; the units are " + join(units);
  if (std::ranges::find(units, parts->unit_name, &unit::name) != units.end()) {
    return "it is not a whole number of " + std::string{units.front().name} + ", or too large";
  }
  const auto digits = text.substr(0, text.size() - parts->unit_name.size());
  const auto close = meant(parts->unit_name, units);
  std::string start;
  if (close) start = "did you mean \"" + std::string{digits} + std::string{*close} + "\"? ";
  return start + "the units are " + join(units);
}

// `value` of a small unit in the largest one in which it is at least 1: "3.33min".
std::string readable(double value, std::span<const unit> units) {
  const unit* best = &units.front();
  for (const auto& candidate : units) {
    if (value >= static_cast<double>(candidate.factor)) best = &candidate;
  }
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3g", value / static_cast<double>(best->factor));
  return buffer.data() + std::string{best->name};
}

std::string bare_hint(std::string_view number, std::span<const unit> units,
                      const std::array<std::string_view, 2>& likely) {
  std::string text = "write the unit:";
  for (const auto name : likely) {
    const auto spelled = std::string{number} + std::string{name};
    const auto value = parse(spelled, units);
    if (!value) continue;
    const auto plain = readable(static_cast<double>(*value), units);
    text += (text.back() == ':' ? " \"" : " or \"") + spelled + "\"";
    if (plain != spelled) text += " (= " + plain + ")";
  }
  return text.back() == ':' ? "the units are " + join(units) : text;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  const auto value = parse(text, time_units);
  if (!value) return std::nullopt;
  return std::chrono::nanoseconds{static_cast<std::int64_t>(*value)};
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  return parse(text, byte_units);
}

std::string duration_hint(std::string_view text) {
  return hint(text, time_units);
}

std::string size_hint(std::string_view text) {
  return hint(text, byte_units);
}

std::string bare_duration_hint(std::string_view number) {
  return bare_hint(number, time_units, {"ms", "s"});
}

std::string bare_size_hint(std::string_view number) {
  return bare_hint(number, std::span{byte_units}.first(binary_units), {"B", "MiB"});
}

std::string spell_duration(std::chrono::nanoseconds value) {
  const auto count = value.count();
  if (count < 0) return std::to_string(count) + "ns";  // never valid; shown in messages only
  if (count == 0) return "0s";
  return spell(static_cast<std::uint64_t>(count), time_units);
}

std::string spell_size(std::uint64_t bytes) {
  return spell(bytes, std::span{byte_units}.first(binary_units));
}

std::string duration_units() {
  return join(time_units);
}

std::string size_units() {
  return join(byte_units);
}

}  // namespace ftrt::grammar
