#include <storage/catalog_impl.hpp>
#include <storage/file_ops.hpp>
#include <vector>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

struct row {
  std::uint32_t branch = 0;
  std::uint64_t iteration = 0;
  bool quarantined = false;
  std::string folder;
};

std::vector<row> read_rows(catalog_database& database) {
  std::vector<row> rows;
  auto query = database.query(
      "SELECT branch, iteration, state = 'quarantined', folder FROM checkpoints"
      " ORDER BY branch, iteration");
  while (query->executeStep()) {
    rows.push_back({query->getColumn(0).getUInt(),
                    static_cast<std::uint64_t>(query->getColumn(1).getInt64()),
                    query->getColumn(2).getInt() != 0, query->getColumn(3).getString()});
  }
  return rows;
}

// Takes the rows whose manifest is gone out of `rows`. A quarantined one is never offered, and
// stays to tell why.
std::vector<row> take_gone(std::vector<row>& rows, const fs::path& run_directory) {
  std::vector<row> gone;
  std::erase_if(rows, [&](const row& known) {
    if (known.quarantined || !is_gone(run_directory / known.folder / manifest_file)) return false;
    gone.push_back(known);
    return true;
  });
  return gone;
}

known_checkpoints index_of(const std::vector<row>& rows) {
  known_checkpoints known;
  for (const auto& [branch, iteration, quarantined, folder] : rows) {
    known.folders.insert(folder);
    known.places[{branch, iteration}] = folder;
  }
  return known;
}

std::int64_t usable(catalog_database& database) {
  return database.number(
      "SELECT count(*) FROM checkpoints WHERE superseded = 0 AND state <> 'quarantined'");
}

// Where nothing could be loaded any more without these, their rows are all that still tells of what
// the run had: they stay, and whoever would go on finds out.
bool are_the_last(catalog_database& database, const std::vector<row>& gone) {
  std::int64_t lost = 0;
  for (const auto& known : gone) {
    lost += database.number(
        "SELECT count(*) FROM checkpoints"
        " WHERE branch = ? AND iteration = ? AND folder = ? AND superseded = 0",
        known.branch, known.iteration, known.folder);
  }
  return lost > 0 && lost == usable(database);
}

// Removed rather than quarantined: where the files come back (a disk was not mounted, a folder was
// moved away) the next start adopts them again.
void remove_rows(catalog_database& database, const std::vector<row>& gone,
                 std::vector<std::string>& notes) {
  for (const auto& [branch, iteration, quarantined, folder] : gone) {
    // By folder as well: the same state may have been found at another place.
    const auto removed = database.execute(
        "DELETE FROM checkpoints WHERE branch = ?1 AND iteration = ?2 AND folder = ?3", branch,
        iteration, folder);
    if (removed == 0) continue;
    add_note(notes, "checkpoint " + std::to_string(iteration) + " of branch " +
                        std::to_string(branch) + " is gone, " + folder +
                        " has no manifest any more: its row was removed; put the folder back to "
                        "have it again at the next start");
  }
}

}  // namespace

// A crash can come between any two steps of adding (files, manifest, row) and of pruning (row,
// manifest, files). Both leave a whole checkpoint without a row, and nothing tells which of the two
// it was; adopting a pruned one costs only its space until retention removes it again.
result<void> reconcile(catalog_database& database, const fs::path& run_directory,
                       const std::string& run_id, std::vector<std::string>& notes) {
  return guarded("comparing the catalog with the checkpoints", [&]() -> result<void> {
    auto rows = read_rows(database);
    const auto gone = take_gone(rows, run_directory);
    const auto found = find_unknown(run_directory, run_id, index_of(rows), notes);
    if (gone.empty() && found.empty()) return {};
    std::vector<std::string> done;
    auto ok = database.transaction("reconciling the catalog", [&]() -> result<void> {
      if (auto adopted = adopt(database, found, done); !adopted) return adopted;
      if (!are_the_last(database, gone)) remove_rows(database, gone, done);
      return {};
    });
    if (!ok) return ok;
    for (auto& note : done) add_note(notes, std::move(note));
    return {};
  });
}

}  // namespace ftrt::storage
