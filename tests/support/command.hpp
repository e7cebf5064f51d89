#pragma once

#include <filesystem>
#include <string>

namespace ftrt::test {

struct command_result {
  int exit_code = -1;  // also where it could not be started, or a signal ended it
  std::string out;     // what it wrote to standard output
};

// Runs a line of shell to its end. Blocks.
[[nodiscard]] command_result run_command(const std::string& line);

// A path as one word of such a line.
[[nodiscard]] std::string quoted(const std::filesystem::path& path);

}  // namespace ftrt::test
