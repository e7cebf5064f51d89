#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tools/ftrt/output.hpp"

namespace ftrt::cli {

// One life of a command that is killed on purpose (chaos kind kill_supervisor).
struct life {
  // The run that the life before left behind, to be resumed; empty: the first life.
  std::filesystem::path run_directory;
  // Tells the guard whose run this life is at. Call once, as soon as it is known.
  std::function<void(const std::filesystem::path&)> tell;
};

// Forks before there is any thread: the child performs the command, and this process waits for it,
// passes SIGINT, SIGTERM and SIGHUP on, and gives it another life, which resumes its run, where it
// was killed by SIGKILL. Returns the exit code of the last one. The child dies with this process.
//
// The caller has those signals blocked (class signals), and has no second thread.
[[nodiscard]] int guard(const std::function<int(const life&)>& perform, output& errors);

}  // namespace ftrt::cli
