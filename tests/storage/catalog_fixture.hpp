#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <storage/catalog.hpp>
#include <string>
#include <tests/support/temporary_folder.hpp>
#include <utility>
#include <vector>

namespace ftrt::storage::testing {

// The folder of a run, for a catalog and its checkpoints. `notes_` is what the last opening told.
class catalog_fixture : public ::testing::Test {
 protected:
  catalog_fixture() { std::filesystem::create_directory(checkpoints()); }

  [[nodiscard]] std::filesystem::path checkpoints() const {
    return directory_.path() / "checkpoints";
  }
  [[nodiscard]] std::filesystem::path file() const { return directory_.path() / "catalog.sqlite"; }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t iteration,
                                             std::uint32_t branch = 1) const {
    return checkpoints() / (std::to_string(branch) + "-" + std::to_string(iteration));
  }

  result<catalog> try_open() {
    notes_.clear();
    return catalog::open(directory_.path(), "run-1", notes_);
  }
  catalog open() {
    auto opened = try_open();
    if (!opened) throw std::runtime_error(opened.error().describe());
    return std::move(*opened);
  }
  [[nodiscard]] bool noted(const std::string& text) const {
    return std::ranges::any_of(
        notes_, [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }

  test::temporary_folder directory_;
  std::vector<std::string> notes_;
};

}  // namespace ftrt::storage::testing
