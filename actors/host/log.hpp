#pragma once

#include <spdlog/spdlog.h>

#include <ftrt/error.hpp>
#include <string_view>

namespace ftrt::host {

// The control half's own log, for what no event tells: to standard error, since standard output
// belongs to the program that embeds us. Not registered with spdlog, so that no setting of the
// host's is touched. Any thread.
[[nodiscard]] spdlog::logger& log();

// For what failed and has nobody to be told but people: "catalog: no space: ...". Of what went well
// it says nothing. Any thread.
void warn_of_failure(std::string_view subject, const result<void>& outcome);

}  // namespace ftrt::host
