#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <storage/catalog_impl.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

std::string name_of(const checkpoint_manifest& manifest) {
  return "checkpoint " + std::to_string(manifest.iteration.value()) + " of branch " +
         std::to_string(manifest.branch.value());
}

// Why a readable manifest is not taken; empty: it is.
std::string unwanted(const checkpoint_manifest& manifest, const std::string& run_id,
                     const known_checkpoints& known) {
  if (!run_id.empty() && manifest.run_id != run_id) {
    return "belongs to run '" + manifest.run_id + "'";
  }
  const auto at = known.places.find({manifest.branch.value(), manifest.iteration.value()});
  if (at == known.places.end()) return {};
  return "is a copy of " + name_of(manifest) + ", which is in " + at->second;
}

// Manifests name their branch but not where it began. What is certain: a branch left the one before
// it ahead of its own first checkpoint. With that as its beginning, a checkpoint is superseded
// where a later branch has one of the same or an earlier iteration.
using branch_starts = std::map<std::uint32_t, std::uint64_t>;

branch_starts starts_of(const std::vector<found_checkpoint>& found) {
  branch_starts first;
  for (const auto& [manifest, folder] : found) {
    const auto iteration = manifest.iteration.value();
    const auto start = iteration > 0 ? iteration - 1 : 0;
    const auto [at, added] = first.emplace(manifest.branch.value(), start);
    if (!added) at->second = std::min(at->second, start);
  }
  // A branch also began before every later one of its descendants did.
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (auto at = first.rbegin(); at != first.rend(); ++at) {
    least = std::min(least, at->second);
    at->second = least;
  }
  return first;
}

// A catalog can lack branches that manifests name: a new one does, and so does an old copy that was
// put in its place. What goes on from here must know of them, or it would begin them once more.
void insert_branches(catalog_database& database, const branch_starts& starts,
                     std::vector<std::string>& notes) {
  for (const auto& [branch, start] : starts) {
    if (database.number("SELECT count(*) FROM branches WHERE branch = ?1", branch) > 0) continue;
    leave_for(database, branch, start, 0, 0);
    add_note(notes, "branch " + std::to_string(branch) +
                        " is known from its checkpoints only: it left the one before it at "
                        "iteration " +
                        std::to_string(start) + " at the latest");
  }
}

void insert_generations(catalog_database& database, const std::vector<found_checkpoint>& found) {
  for (const auto& [manifest, folder] : found) {
    database.execute(
        "INSERT INTO generations (generation, branch, from_iteration, reason, began_ms)"
        " VALUES (?1, ?2, 0, 'known from a manifest only', 0) ON CONFLICT DO NOTHING",
        manifest.generation.value(), manifest.branch.value());
  }
}

void insert_run(catalog_database& database, const std::string& run_id,
                const std::vector<found_checkpoint>& found) {
  std::int64_t started = std::numeric_limits<std::int64_t>::max();
  std::uint64_t iterations = 0;
  for (const auto& [manifest, folder] : found) {
    started = std::min(started, manifest.created_ms);
    iterations = std::max(iterations, manifest.iteration.value());
  }
  const auto& id = run_id.empty() ? found.front().manifest.run_id : run_id;
  database.execute(
      "INSERT INTO runs (run_id, name, status, started_ms, iterations)"
      " VALUES (?1, ?1, 'interrupted', ?2, ?3)",
      id, started, iterations);
}

}  // namespace

void add_note(std::vector<std::string>& notes, std::string note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
}

std::vector<found_checkpoint> find_unknown(const fs::path& run_directory, const std::string& run_id,
                                           known_checkpoints known,
                                           std::vector<std::string>& notes) {
  std::vector<found_checkpoint> found;
  for (const auto& path : find_checkpoints(run_directory / "checkpoints")) {
    const auto folder = folder_name(run_directory, path);
    if (known.folders.contains(folder)) continue;
    auto manifest = read_manifest(path);
    if (!manifest) {
      add_note(notes, "left out of the catalog: " + manifest.error().describe());
      continue;
    }
    if (const auto why = unwanted(*manifest, run_id, known); !why.empty()) {
      add_note(notes, "left out of the catalog: " + path.string() + " " + why);
      continue;
    }
    known.places[{manifest->branch.value(), manifest->iteration.value()}] = folder;
    found.push_back({std::move(*manifest), folder});
  }
  return found;
}

result<void> adopt(catalog_database& database, const std::vector<found_checkpoint>& found,
                   std::vector<std::string>& notes) {
  insert_branches(database, starts_of(found), notes);
  insert_generations(database, found);
  for (const auto& [manifest, folder] : found) {
    const auto left = left_at(database, manifest.branch.value());
    const bool superseded = left && manifest.iteration.value() > *left;
    const auto state = checkpoint_state::committed;
    if (auto ok = insert_checkpoint(database, manifest, folder, state, superseded); !ok) return ok;
    add_note(notes, name_of(manifest) + " was committed but not in the catalog: added" +
                        (superseded ? " as superseded, since its branch was left at iteration " +
                                          std::to_string(*left)
                                    : ""));
  }
  return {};
}

result<void> create_from_manifests(catalog_database& database, const fs::path& run_directory,
                                   const std::string& run_id, std::vector<std::string>& notes) {
  const auto found = find_unknown(run_directory, run_id, {}, notes);
  auto made = database.transaction("making the catalog", [&]() -> result<void> {
    apply_steps(database, catalog_migrations(), 0);
    if (found.empty()) return {};
    insert_run(database, run_id, found);
    std::vector<std::string> one_by_one;  // of everything, that would be too much to tell
    return adopt(database, found, one_by_one);
  });
  if (made && !found.empty()) {
    add_note(notes,
             "catalog rebuilt from " + std::to_string(found.size()) + " checkpoint manifests");
  }
  return made;
}

}  // namespace ftrt::storage
