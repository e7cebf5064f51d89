#include <schemas/scenario/nearest.hpp>

#include <algorithm>
#include <vector>

namespace ftrt::grammar {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Names are short; whoever writes more is not guessed at, so that hostile input costs nothing.
constexpr std::size_t max_length = 64;

}  // namespace

// Optimal string alignment: Damerau (1964), with three rows of the table alive.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> older(b.size() + 1);
  std::vector<std::size_t> old(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) now[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    older.swap(old);
    old.swap(now);
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, old[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) now[j] = std::min(now[j], older[j - 2] + 1);
    }
  }
  return now[b.size()];
}

std::optional<std::string_view> nearest(std::string_view found,
                                        std::span<const std::string_view> names) {
  if (found.empty() || found.size() > max_length) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t least = 0;
  for (const auto name : names) {
    const auto distance = edit_distance(found, name);
    const auto allowed = std::max<std::size_t>(1, std::max(found.size(), name.size()) / 3);
    if (distance > allowed || (best && distance >= least)) continue;
    best = name;
    least = distance;
  }
  return best;
}

}  // namespace ftrt::grammar
