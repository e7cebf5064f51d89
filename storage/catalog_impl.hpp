#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <storage/catalog.hpp>
#include <storage/catalog_database.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ftrt::storage {

struct catalog::impl {
  std::unique_ptr<catalog_database> database;
  std::filesystem::path directory;  // of the run, absolute
};

[[nodiscard]] std::string_view to_string(checkpoint_state state);

// Inserts or replaces one checkpoint's rows; for a transaction of the caller. `folder` is how the
// row names the checkpoint's folder. Throws SQLite::Exception.
[[nodiscard]] result<void> insert_checkpoint(catalog_database& database,
                                             const checkpoint_manifest& manifest,
                                             const std::string& folder, checkpoint_state state,
                                             bool superseded);

// A folder as rows name it: relative where it is inside the run's, so that a run can be moved.
[[nodiscard]] std::string folder_name(const std::filesystem::path& run_directory,
                                      const std::filesystem::path& folder);

// A checkpoint on disk that no row speaks of.
struct found_checkpoint {
  checkpoint_manifest manifest;
  std::string folder;  // as a row names it
};

// What the rows speak of already: folders, and which of them holds which state.
struct known_checkpoints {
  std::set<std::string> folders;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> places;  // by branch, iteration
};

// The committed checkpoints under `run_directory`/checkpoints that are not `known`, by name.
// Manifests of other runs, unreadable ones and copies are left out, and told of in `notes`.
[[nodiscard]] std::vector<found_checkpoint> find_unknown(const std::filesystem::path& run_directory,
                                                         const std::string& run_id,
                                                         known_checkpoints known,
                                                         std::vector<std::string>& notes);

// Gives each of `found` a row, and each branch that is known from them only; for a transaction of
// the caller. Nobody has read their shards back: they are committed, whatever they were called
// before, and superseded where their branch was left before their iteration. Throws
// SQLite::Exception.
[[nodiscard]] result<void> adopt(catalog_database& database,
                                 const std::vector<found_checkpoint>& found,
                                 std::vector<std::string>& notes);

// Makes the schema in an empty database and fills it from the manifests, all in one transaction.
[[nodiscard]] result<void> create_from_manifests(catalog_database& database,
                                                 const std::filesystem::path& run_directory,
                                                 const std::string& run_id,
                                                 std::vector<std::string>& notes);

// Brings the rows of a sound catalog in line with the folders, which are the truth: adopts what was
// committed and has no row, removes the rows of what is gone. Tells `notes` of each.
[[nodiscard]] result<void> reconcile(catalog_database& database,
                                     const std::filesystem::path& run_directory,
                                     const std::string& run_id, std::vector<std::string>& notes);

// The iteration at which history left `branch` for a later one; none: it has not. Throws
// SQLite::Exception.
[[nodiscard]] std::optional<std::uint64_t> left_at(catalog_database& database,
                                                   std::uint32_t branch);

// Records that `branch` left those before it at `from`, and what is no longer history by that; for
// a transaction of the caller. Throws SQLite::Exception.
void leave_for(catalog_database& database, std::uint32_t branch, std::uint64_t from,
               std::uint64_t generation, std::int64_t now_ms);

// Notes are told once each, however often the catalog is opened with them.
void add_note(std::vector<std::string>& notes, std::string note);

}  // namespace ftrt::storage
