#pragma once

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// `ftrt runs`, `ftrt checkpoints` and `ftrt events`: what the catalog says, as a table for people
// or, with --json, as one JSON array whose keys are the fields of ftrt/catalog.hpp. Complaints go
// to `errors`. Safe beside a living run.
[[nodiscard]] exit_code show_runs(const options& asked, output& out, output& errors);
[[nodiscard]] exit_code show_checkpoints(const options& asked, output& out, output& errors);
[[nodiscard]] exit_code show_events(const options& asked, output& out, output& errors);

}  // namespace ftrt::cli
