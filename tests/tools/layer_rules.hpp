#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The layers of the house as a check of its source tree: which room may include what. The rules are
// a table in layer_rules.cpp; the tests feed it a fake tree for each of them.
namespace ftrt::testing {

struct violation {
  std::string file;  // relative to the tree
  std::size_t line = 0;
  std::string what;  // the rule and what broke it
};

// Every source (.cpp, .hpp, .h, .inc, .cu, .cuh) of the tree, without builds, data and the like;
// relative, sorted.
[[nodiscard]] std::vector<std::filesystem::path> sources_of(const std::filesystem::path& tree);

// Includes that a room must not have.
[[nodiscard]] std::vector<violation> check_includes(const std::filesystem::path& tree);

// Sources over 350 lines.
[[nodiscard]] std::vector<violation> check_sizes(const std::filesystem::path& tree);

// Folders with sources and without a README.md. Of tests/, which mirrors the rooms, only itself.
[[nodiscard]] std::vector<violation> check_readmes(const std::filesystem::path& tree);

// The libraries that `readelf -d` says a program needs, from its output.
[[nodiscard]] std::vector<std::string> needed_libraries(std::string_view readelf_output);

// Those of them that a program of the control half must not need.
[[nodiscard]] std::vector<std::string> libtorch_among(const std::vector<std::string>& needed);

}  // namespace ftrt::testing
