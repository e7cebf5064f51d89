#include <actors/control/chaos_ledger.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

namespace ftrt::actors {
namespace {

constexpr std::string_view before = "chaos[";
constexpr std::string_view behind = "]";

std::optional<std::size_t> entry_of(std::string_view subject) {
  if (!subject.starts_with(before) || !subject.ends_with(behind)) return std::nullopt;
  subject.remove_prefix(before.size());
  subject.remove_suffix(behind.size());
  std::size_t number = 0;
  const auto* end = subject.data() + subject.size();
  const auto read = std::from_chars(subject.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return number;
}

// The oldest order that this rank has not obeyed yet.
void note_done(fault_history& history, std::uint32_t rank) {
  const auto open = std::ranges::find_if(
      history.firings, [rank](const auto& firing) { return !firing.done.contains(rank); });
  if (open != history.firings.end()) open->done.insert(rank);
}

}  // namespace

bool is_for_the_worker(const chaos_entry& entry) {
  return entry.in != chaos_phase::any || entry.kind == chaos_kind::nan ||
         entry.kind == chaos_kind::flip_bit || entry.kind == chaos_kind::slow;
}

std::string subject_of_entry(std::size_t entry) {
  return std::string{before} + std::to_string(entry) + std::string{behind};
}

std::vector<fault_history> read_history(const std::vector<event>& events, std::size_t entries) {
  std::vector<fault_history> histories(entries);
  for (const auto& each : events) {
    if (each.what != event::kind::chaos) continue;
    const auto entry = entry_of(each.subject);
    if (!entry || *entry >= entries) continue;
    if (each.rank < 0) {
      histories[*entry].firings.push_back({iteration_id{each.iteration}, {}});
    } else {
      note_done(histories[*entry], static_cast<std::uint32_t>(each.rank));
    }
  }
  return histories;
}

iteration_id newest_iteration(const std::vector<event>& events, const scenario& values) {
  iteration_id newest;
  for (const auto& each : events) {
    const auto entry = entry_of(each.subject);
    const bool known = entry && *entry < values.chaos.size();
    if (each.what == event::kind::chaos && known && is_for_the_worker(values.chaos[*entry])) {
      continue;
    }
    newest = std::max(newest, iteration_id{each.iteration});
  }
  return newest;
}

}  // namespace ftrt::actors
