#pragma once

#include <string>

namespace ftrt::grammar {

// docs/scenario.md: the grammar table and the rules as people read them. A function of the code
// alone, so that a test can hold the file in the tree to it.
[[nodiscard]] std::string reference();

}  // namespace ftrt::grammar
