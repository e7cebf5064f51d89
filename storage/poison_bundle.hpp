#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

// A batch that killed its rank again and again: what it takes to see it happen once more.
struct poison_report {
  std::string run_id;
  std::uint64_t seed = 0;
  rank_id rank;
  std::uint32_t world_size = 0;
  iteration_id iteration;
  std::uint64_t epoch = 0;  // from 0
  std::uint32_t times = 0;
  std::string cause;
  std::string stderr_tail;
  bool skipped = false;           // left out from now on; else it ended the run
  std::uint64_t micro_batch = 0;  // the one that the rank died at, of the whole window
  struct batch {
    std::uint64_t micro_batch = 0;
    std::vector<std::uint32_t> sample_ids;
  };
  std::vector<batch> batches;  // of that rank, in the order of training
};

// Its place in the run's folder: "poisoned/iteration-57-rank-1".
[[nodiscard]] std::filesystem::path poison_folder(iteration_id iteration, rank_id rank);

// Writes `bundle.json`, `stderr.txt` and `README.txt` there. Blocks for the disk; the storage
// thread.
[[nodiscard]] result<void> write_poison_bundle(const std::filesystem::path& run_directory,
                                               const poison_report& report);

}  // namespace ftrt::storage
