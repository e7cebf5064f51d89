#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <storage/catalog_impl.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

struct found_checkpoint {
  checkpoint_manifest manifest;
  std::string folder;
};

std::vector<found_checkpoint> collect(const fs::path& run_directory, const std::string& run_id,
                                      std::vector<std::string>& notes) {
  std::vector<found_checkpoint> found;
  for (const auto& folder : find_checkpoints(run_directory / "checkpoints")) {
    auto manifest = read_manifest(folder);
    if (!manifest) {
      notes.push_back("left out of the catalog: " + manifest.error().describe());
    } else if (!run_id.empty() && manifest->run_id != run_id) {
      notes.push_back("left out of the catalog: " + folder.string() + " belongs to run '" +
                      manifest->run_id + "'");
    } else {
      found.push_back({std::move(*manifest), folder_name(run_directory, folder)});
    }
  }
  return found;
}

// Manifests name their branch but not where it began. What is certain: a branch left the one before
// it ahead of its own first checkpoint. So a checkpoint is held superseded where a later branch has
// one of the same or an earlier iteration.
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

bool is_superseded(const branch_starts& starts, const checkpoint_manifest& manifest) {
  const auto next = starts.upper_bound(manifest.branch.value());
  return next != starts.end() && manifest.iteration.value() > next->second;
}

void insert_branches(catalog_database& database, const branch_starts& starts) {
  std::uint32_t parent = 1;
  for (const auto& [branch, start] : starts) {
    if (branch == 1) continue;
    database.execute(
        "INSERT INTO branches (branch, parent, from_iteration, generation, began_ms)"
        " VALUES (?1, ?2, ?3, 0, 0)",
        branch, parent, start);
    parent = branch;
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

result<void> create_from_manifests(catalog_database& database, const fs::path& run_directory,
                                   const std::string& run_id, std::vector<std::string>& notes) {
  const auto found = collect(run_directory, run_id, notes);
  auto made = database.transaction("making the catalog", [&]() -> result<void> {
    apply_steps(database, catalog_migrations(), 0);
    if (found.empty()) return {};
    const auto starts = starts_of(found);
    insert_run(database, run_id, found);
    insert_branches(database, starts);
    insert_generations(database, found);
    for (const auto& [manifest, folder] : found) {
      // Nobody has read these shards back: committed, whatever they were called before.
      auto ok = insert_checkpoint(database, manifest, folder, checkpoint_state::committed,
                                  is_superseded(starts, manifest));
      if (!ok) return ok;
    }
    return {};
  });
  if (made && !found.empty()) {
    notes.push_back("catalog rebuilt from " + std::to_string(found.size()) +
                    " checkpoint manifests");
  }
  return made;
}

}  // namespace ftrt::storage
