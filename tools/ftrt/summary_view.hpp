#pragma once

#include <filesystem>
#include <ftrt/summary.hpp>
#include <string>

namespace ftrt::cli {

// What a run came to, for people: a dozen lines, each made printable.
[[nodiscard]] std::string describe(const run_summary& summary,
                                   const std::filesystem::path& directory);

}  // namespace ftrt::cli
