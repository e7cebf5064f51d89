#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ftrt::metrics {

// A folder of its own for each test, gone afterwards.
class metrics_fixture : public testing::Test {
 protected:
  metrics_fixture() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ftrt-metrics-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
  }
  ~metrics_fixture() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

}  // namespace ftrt::metrics
