#pragma once

#include <ftrt/stop.hpp>
#include <functional>

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// ftrt::stop_run(); a test has its own.
using stopper =
    std::function<result<stop_report>(const std::filesystem::path&, const stop_options&)>;

// `ftrt stop`: asks a run's process to stop it, waits for the end, and says what it came to. done:
// stopped in order, or asked where nobody wants to wait; failed: not stopped in time, or it ended
// otherwise; refused: there is no such run, or it is not running.
[[nodiscard]] exit_code stop(const options& asked, const stopper& stop_it, output& out,
                             output& errors);

}  // namespace ftrt::cli
