#pragma once

#include <gmock/gmock.h>

#include <ftrt/scenario.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt::testing_scenario {

// Complete and valid: what a test breaks, it breaks by an addition or an override.
inline constexpr std::string_view valid =
    "[model]\nlayers = [784, 32, 10]\n[data]\npath = \"/data/mnist\"\n";

inline checked<loaded_scenario> parse(std::string_view text,
                                      const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "a.toml", "/home/me/scenarios", overrides);
}

inline std::vector<std::string> described(const checked<loaded_scenario>& outcome) {
  std::vector<std::string> lines;
  if (outcome) return lines;
  for (const auto& fault : outcome.error()) lines.push_back(fault.describe());
  return lines;
}

// Everything that is wrong with `text`, as people read it.
inline std::vector<std::string> faults(std::string_view text,
                                       const std::vector<std::string>& overrides = {}) {
  return described(parse(text, overrides));
}

// What is wrong once `lines` (which start at line 1) come before the valid rest.
inline std::vector<std::string> faults_before_valid(
    const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return faults(lines + "\n" + std::string{valid}, overrides);
}

inline loaded_scenario parse_well(std::string_view text,
                                  const std::vector<std::string>& overrides = {}) {
  const auto loaded = parse(text, overrides);
  EXPECT_THAT(described(loaded), testing::IsEmpty());
  return loaded ? *loaded : loaded_scenario{};
}

}  // namespace ftrt::testing_scenario
