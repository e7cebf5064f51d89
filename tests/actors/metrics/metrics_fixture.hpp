#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::metrics {

// A folder of its own for each test, gone afterwards.
class metrics_fixture : public testing::Test {
 protected:
  const test::temporary_folder folder_;
  const std::filesystem::path& directory_ = folder_.path();
};

}  // namespace ftrt::metrics
