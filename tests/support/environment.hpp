#pragma once

#include <filesystem>
#include <string>

namespace ftrt::test {

// This repository, and the folder of the built programs; as ctest tells (FTRT_SOURCE, FTRT_BIN).
// Throw std::runtime_error where it did not.
[[nodiscard]] std::filesystem::path source_tree();
[[nodiscard]] std::filesystem::path programs();

// A whole file, as it is; empty where it cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace ftrt::test
