#pragma once

#include <cstddef>
#include <optional>
#include <schemas/state_layout.hpp>
#include <span>
#include <string>

namespace ftrt::storage {

// The name of the first tensor of `part` in which a number is NaN or infinite; nothing where all
// are finite. Scalars are left out: an accuracy that was never measured is NaN by right. So are
// whole numbers, which cannot be otherwise.
//
// `content`: the arena's bytes part.begin_bytes .. part.end_bytes; may be memory that another
// process writes to. One pass at the speed of memory; storage thread.
[[nodiscard]] std::optional<std::string> first_not_finite(const state_layout& layout,
                                                          const layout_part& part,
                                                          std::span<const std::byte> content);

}  // namespace ftrt::storage
