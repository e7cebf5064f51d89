#pragma once

#include <ftrt/postmortem.hpp>
#include <ftrt/status.hpp>
#include <optional>
#include <string_view>

namespace ftrt::storage {

// What to_json() wrote, read back. The text may be anything: a value of the wrong kind or size is
// left out as if it had not been written; lists are cut at what a run can have. nullopt: it is no
// JSON object. Pure.
[[nodiscard]] std::optional<postmortem> parse_postmortem(std::string_view text);
// But for `run`, `holder`, `told` and `age_seconds`, which the reader finds out.
[[nodiscard]] std::optional<run_status> parse_status(std::string_view text);

}  // namespace ftrt::storage
