#pragma once

#include "tools/ftrt/options.hpp"
#include "tools/ftrt/output.hpp"
#include "tools/ftrt/run_thread.hpp"
#include "tools/ftrt/signals.hpp"

namespace ftrt::cli {

// `ftrt --scenario` and `ftrt resume`: starts the run, shows it, stops it when signalled (the first
// signal asks for a checkpoint and an orderly end, the second ends it at once), and tells what it
// came to. Blocks until the run has ended. Returns the process's exit code.
//
// `out` gets the run's story, `errors` what went wrong. With `--summary -` the story moves to
// `errors`, so that `out` holds the JSON and nothing else.
[[nodiscard]] int train(const options& asked, const starter& start, signals& interrupts,
                        output& out, output& errors);

}  // namespace ftrt::cli
