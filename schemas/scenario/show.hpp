#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace ftrt::grammar {

// A node as a message shows it: `"five"`, 0.5, [1, 2], `a table`; cut where it is long.
[[nodiscard]] std::string show(const toml::node& node);

// Text as a message shows it: quoted, cut where it is long.
[[nodiscard]] std::string show(std::string_view text);

}  // namespace ftrt::grammar
