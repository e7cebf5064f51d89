#include <storage/catalog_impl.hpp>
#include <storage/event_log.hpp>
#include <unordered_map>

namespace ftrt::storage {

result<void> catalog::add_events(std::span<const event> events) {
  return impl_->database->transaction("writing events", [&]() -> result<void> {
    for (const auto& what : events) {
      auto insert = impl_->database->query(
          "INSERT INTO events (kind, wall_time_ms, generation, iteration, rank, subject, text)"
          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
          std::string{ftrt::to_string(what.what)}, what.wall_time_ms, what.generation,
          what.iteration, what.rank, what.subject, what.text);
      if (what.rank < 0) insert->bind(5);
      insert->exec();
    }
    return {};
  });
}

// A line of the log says all of an event, and says it alike of one that went through the log
// before.
result<std::size_t> catalog::take_in(std::span<const event> logged) {
  const auto known = events();
  if (!known) return tl::unexpected(known.error());
  std::unordered_map<std::string, std::size_t> have;
  for (const auto& each : *known) ++have[to_json_line(each)];
  std::vector<event> missing;
  for (const auto& each : logged) {
    const auto found = have.find(to_json_line(each));
    if (found == have.end() || found->second == 0) {
      missing.push_back(each);
    } else {
      --found->second;
    }
  }
  if (auto added = add_events(missing); !added) return tl::unexpected(added.error());
  return missing.size();
}

}  // namespace ftrt::storage
