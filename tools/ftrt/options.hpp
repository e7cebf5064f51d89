#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ftrt::cli {

enum class exit_code : int {
  done = 0,
  failed = 1,
  refused = 2,  // usage, or a scenario or data that cannot be run
  // stopped by a signal: 128 + its number
};

enum class command : std::uint8_t {
  train,
  resume,
  stop,
  check,
  runs,
  checkpoints,
  events,
  status,
  postmortem,
};

// What the command line asks for.
struct options {
  command what = command::train;
  std::filesystem::path scenario;        // train, check
  std::vector<std::string> overrides;    // train, resume, check: "train.lr=0.05"
  std::string run_id;                    // resume, stop and those that look at one; empty: newest
  std::filesystem::path runs_directory;  // where the commands on past runs look
  bool runs_directory_given = false;     // train: overrides run.directory
  std::filesystem::path summary;         // train, resume; empty: none; "-": standard output
  bool quiet = false;                    // train, resume
  bool json = false;                     // stop, check, and those that look at runs
  std::optional<std::chrono::milliseconds> timeout;  // stop; empty: as the scenario says
  bool no_wait = false;                              // stop
  std::optional<std::uint64_t> generation;           // postmortem; empty: the newest that has one
};

// Either options, or a text (help, version, complaint) and the exit code to end with at once.
struct parsed {
  bool go_on = false;
  options values;
  std::string text;
  exit_code code = exit_code::done;  // done: text belongs on stdout, else on stderr
};

[[nodiscard]] parsed parse_options(int argument_count, const char* const* arguments);

}  // namespace ftrt::cli
