#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace ftrt::grammar {

// Edits (insert, delete, replace, swap of neighbours; case does not count) that make `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The valid name that `found` was probably meant to be: the closest one, at most a third of its
// letters away. Nothing where no name is close.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view found,
                                                      std::span<const std::string_view> names);

}  // namespace ftrt::grammar
