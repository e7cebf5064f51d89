#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ftrt/postmortem.hpp>
#include <ftrt/types.hpp>
#include <storage/progress.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

// What is copied out of one rank's progress memory. A kilobyte or two, in microseconds: no word of
// it is believed, none is used as an index or a size.
struct last_words {
  progress_view page;
  std::vector<progress_record> records;  // oldest first
};
// At most `records` of them.
[[nodiscard]] last_words read_last_words(const shared_memory& progress, std::size_t records);

// How many records of each rank a report keeps: fewer, the more ranks there are.
[[nodiscard]] std::size_t records_to_keep(std::size_t ranks);

// Fills in what a page and a ring say, seen at `now` (CLOCK_MONOTONIC) by whoever knows the rest.
void describe_last_words(postmortem_rank& rank, const last_words& said, generation_id generation,
                         std::chrono::nanoseconds now);

// Fills in `collective`, `waiting` and `missing` from the ranks: the first collective that one of
// them had begun and not left while another had not come. Only members count.
void find_missing(postmortem& report);

// The file of a generation in a run's folder. Storage thread only. The oldest files go where there
// are too many.
[[nodiscard]] result<void> write_postmortem(const std::filesystem::path& run_directory,
                                            const postmortem& report);

}  // namespace ftrt::storage
