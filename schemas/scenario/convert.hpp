#pragma once

#include <toml++/toml.h>
#include <cstddef>
#include <optional>
#include <schemas/scenario/grammar.hpp>
#include <string>

namespace ftrt::grammar {

// What is wrong with one value; the reader adds where it stands.
struct complaint {
  std::string expected;
  std::string found;
  std::string hint;
};

// Checks a value of a file against the grammar and puts it into `values`, which stays as it was
// where there is a complaint.
[[nodiscard]] std::optional<complaint> convert(const key_spec& key, const toml::node& node,
                                               scenario& values, std::size_t entry = 0);

}  // namespace ftrt::grammar
