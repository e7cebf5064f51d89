#pragma once

#include <spdlog/spdlog.h>

namespace ftrt::host {

// The control half's own log, for what no event tells: to standard error, since standard output
// belongs to the program that embeds us. Not registered with spdlog, so that no setting of the
// host's is touched. Any thread.
[[nodiscard]] spdlog::logger& log();

}  // namespace ftrt::host
