#pragma once

#include <filesystem>
#include <ftrt/status.hpp>
#include <optional>

namespace ftrt::storage {

// `status.json` of a run: what it says of itself about once a second, see read_status(). Without
// `run`, `holder` and `age_seconds`, which the reader finds out.

// Storage thread only.
[[nodiscard]] result<void> write_status(const std::filesystem::path& run_directory,
                                        const run_status& status);
// Nothing holds any more that a process before this one said.
void forget_status(const std::filesystem::path& run_directory);
// nullopt: it has said nothing that can be read.
[[nodiscard]] std::optional<run_status> find_status(const std::filesystem::path& run_directory);

}  // namespace ftrt::storage
