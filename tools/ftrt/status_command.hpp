#pragma once

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// `ftrt status`: where a run stands, in whatever process, or how it ended, and how old that news
// is; with --json as ftrt/status.hpp names it. Safe beside a living run.
[[nodiscard]] exit_code show_status(const options& asked, output& out, output& errors);

}  // namespace ftrt::cli
