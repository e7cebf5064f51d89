#pragma once

#include <filesystem>
#include <memory>
#include <storage/catalog.hpp>
#include <storage/catalog_database.hpp>
#include <string>
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

// Makes the schema in an empty database and fills it from the manifests under
// `run_directory`/checkpoints, all in one transaction. Manifests of other runs and unreadable ones
// are left out, and told of in `notes`.
[[nodiscard]] result<void> create_from_manifests(catalog_database& database,
                                                 const std::filesystem::path& run_directory,
                                                 const std::string& run_id,
                                                 std::vector<std::string>& notes);

}  // namespace ftrt::storage
