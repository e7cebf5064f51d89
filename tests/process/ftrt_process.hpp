#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tests/support/environment.hpp>
#include <tests/support/eventually.hpp>
#include <tests/support/temporary_folder.hpp>
#include <vector>

namespace ftrt::test {

// How many times as long an iteration takes here, about: deadlines grow by it, and faults by the
// clock come as much more rarely.
#ifdef FTRT_SANITIZED
constexpr int slowness = 5;
#else
constexpr int slowness = 1;
#endif

// A folder of one test, removed at its end. A sanitizer's report in what was printed there fails
// the test.
class scratch_folder {
 public:
  scratch_folder() = default;
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  temporary_folder folder_;
};

// One `ftrt` command at work, in a scratch folder. Its output goes to files there. The destructor
// kills it; its workers then end by themselves, which the fixture waits for.
class ftrt_process {
 public:
  ftrt_process(const std::filesystem::path& folder, std::vector<std::string> arguments);
  ~ftrt_process();
  ftrt_process(const ftrt_process&) = delete;
  ftrt_process& operator=(const ftrt_process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Exit code, or 128 + signal. Fails the test and kills after `deadline`.
  int wait(std::chrono::seconds deadline = std::chrono::seconds{120 * slowness});
  [[nodiscard]] std::string out() const { return read_file(folder_ / "out.txt"); }
  [[nodiscard]] std::string err() const { return read_file(folder_ / "err.txt"); }

  // Living processes that descend from this one (zygote and workers), by their command's name.
  [[nodiscard]] std::vector<pid_t> descendants() const;
  // The worker of a rank at this moment.
  [[nodiscard]] std::optional<pid_t> worker_of(std::uint32_t rank) const;
  // Living descendants with this name: "ftrt-spare", "ftrt-worker" (the zygote).
  [[nodiscard]] std::vector<pid_t> descendants_named(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// The same of any process: of a service that embeds ftrt.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t ancestor);
[[nodiscard]] std::vector<pid_t> descendants_named_of(pid_t ancestor, const std::string& name);

// What a finished `ftrt` came to.
struct finished_run {
  int exit_code = -1;
  nlohmann::json summary;  // null where none was written
  std::string out;
  std::string err;
};

// `ftrt --scenario FILE --set run.directory=FOLDER/runs ... --summary FOLDER/summary.json`.
[[nodiscard]] std::vector<std::string> training_arguments(const std::filesystem::path& folder,
                                                          const std::filesystem::path& scenario,
                                                          std::vector<std::string> sets = {});
[[nodiscard]] finished_run train(const std::filesystem::path& folder,
                                 const std::filesystem::path& scenario,
                                 std::vector<std::string> sets = {});
[[nodiscard]] finished_run collect(ftrt_process& process, const std::filesystem::path& folder);

// The one run under FOLDER/runs.
[[nodiscard]] std::filesystem::path only_run(const std::filesystem::path& folder);

// Committed checkpoints on disk.
[[nodiscard]] std::uint64_t checkpoints_of(const std::filesystem::path& folder);

// Folder of the scenarios that ship.
[[nodiscard]] std::filesystem::path scenarios();

// A small scenario: synthetic data, an MLP, about a second of training. Written to FOLDER.
[[nodiscard]] std::filesystem::path small_scenario(const std::filesystem::path& folder,
                                                   const std::string& more = "");

}  // namespace ftrt::test
