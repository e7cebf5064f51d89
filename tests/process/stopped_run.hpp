#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <storage/shared_memory.hpp>
#include <string>
#include <vector>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {

// One of a worker's memories, as the worker itself has it. Not valid: there is none.
[[nodiscard]] storage::shared_memory memory_of(pid_t worker, const std::string& name);

// Training up to two checkpoints or more; then both workers stand still between two snapshots, and
// what control was writing is written.
class stopped_run : public ::testing::Test {
 protected:
  static constexpr std::uint64_t apart = 50;  // iterations from one checkpoint to the next

  void SetUp() override;

  // False, and they go on, where they happen to stand at one, or before the second.
  bool stop_between_snapshots();
  // What a worker of SetUp() committed last.
  [[nodiscard]] std::uint64_t committed(std::size_t rank) const;
  // Subjects of the events of one kind.
  [[nodiscard]] std::set<std::string> events(const std::string& kind) const;
  // A bit of each page of what one rank had copied.
  void damage_snapshots();
  void damage_checkpoint(std::uint64_t iteration);
  // Both die.
  void kill_workers() const;
  // The run goes on to its end.
  finished_run finish();
  finished_run kill_all();
  void expect_fault_free(const finished_run& done);
  // Trained once for all tests of a program.
  std::string fault_free_digest();

  const std::vector<std::string> long_run_{"train.epochs=" + std::to_string(120 / slowness),
                                           "checkpoint.keep_last=100"};
  scratch_folder folder_;
  std::optional<ftrt_process> process_;
  std::vector<pid_t> workers_;
  std::vector<storage::shared_memory> progress_;
  std::uint64_t newest_ = 0;  // iteration of the newest checkpoint at SetUp()
  std::uint64_t damaged_files_ = 0;
};

}  // namespace ftrt::test
