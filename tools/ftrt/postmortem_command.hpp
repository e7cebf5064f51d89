#pragma once

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// `ftrt postmortem`: what each rank did when a generation ended by a loss: the culprit and its
// cause on top, then who was where, then the last iterations side by side; with --json all that is
// known, as ftrt/postmortem.hpp names it.
[[nodiscard]] exit_code show_postmortem(const options& asked, output& out, output& errors);

}  // namespace ftrt::cli
