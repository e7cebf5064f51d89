#pragma once

#include <ftrt/error.hpp>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <vector>

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// Error messages to people, and the exit code that goes with each. One line an error, made
// printable: a file's name or a worker's words are in them.

// Asking for what is not there or makes no sense is usage; anything else is a failure.
[[nodiscard]] exit_code complain(output& errors, const error& failed);
[[nodiscard]] exit_code complain(output& errors, const std::vector<diagnostic>& refused);
// All that is wrong with the scenario or its data (refused), or what the world did (failed).
[[nodiscard]] exit_code complain(output& errors, const start_error& not_started);

// Says where a fault that the worker found stands in the scenario: its key's file and line.
void locate(std::vector<diagnostic>& faults, const std::vector<resolved_value>& resolved);

// done, unless `out` could not be written to for another reason than a vanished reader.
[[nodiscard]] exit_code check_written(const output& out, output& errors);

}  // namespace ftrt::cli
