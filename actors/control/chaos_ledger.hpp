#pragma once

#include <cstdint>
#include <ftrt/event.hpp>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Which faults have been caused, as the run's event log tells it. An event with subject "chaos[2]"
// is written before the fault of that entry is caused; one with the same subject and a rank once
// that rank's worker has obeyed the order that it came to. So whoever resumes the run causes none
// again, and gives out again what no worker has done.
namespace ftrt::actors {

// The worker does it to itself, by order (protocol::injure).
[[nodiscard]] bool is_for_the_worker(const chaos_entry& entry);

// What became of one [[chaos]] entry so far.
struct fault_history {
  struct firing {
    iteration_id iteration;        // that it was meant for; 0: for none in particular
    std::set<std::uint32_t> done;  // ranks whose workers obeyed
  };
  std::vector<firing> firings;  // in their order
};

// "chaos[2]"
[[nodiscard]] std::string subject_of_entry(std::size_t entry);

// One history for each of `entries` entries. Events of anything else are passed over.
[[nodiscard]] std::vector<fault_history> read_history(const std::vector<event>& events,
                                                      std::size_t entries);

// The newest iteration that they tell of, as far as it was reached: an order to a worker is ahead
// of its iteration.
[[nodiscard]] iteration_id newest_iteration(const std::vector<event>& events,
                                            const scenario& values);

}  // namespace ftrt::actors
