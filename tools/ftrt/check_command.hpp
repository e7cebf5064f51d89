#pragma once

#include <ftrt/run.hpp>
#include <functional>

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// ftrt::check_data(), or what a test puts in its place.
using data_checker =
    std::function<tl::expected<void, start_error>(const scenario&, const run_options&)>;

// `ftrt check`: every resolved value with its origin, then the verdict of a worker on the data.
// Starts no run and leaves nothing behind. With --json the values are one JSON array, printed where
// the scenario itself is right; the exit code tells about the data.
[[nodiscard]] exit_code check_scenario(const options& asked, const data_checker& check, output& out,
                                       output& errors);

}  // namespace ftrt::cli
