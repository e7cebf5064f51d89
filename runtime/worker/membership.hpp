#pragma once

#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <runtime/training/trainer.hpp>
#include <runtime/worker/source_memories.hpp>
#include <runtime/worker/training_events.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <vector>

namespace ftrt::worker {

// Maps what came with a join, checking all of it against what this program is: rank, world size,
// role, count and size of the memories. Nothing is kept of a join that is refused. The memory to
// copy the state from is that of `sources` (nullptr: there are none) where it is among them.
[[nodiscard]] result<join_command> prepare_join(const protocol::join& request,
                                                std::vector<unique_fd> descriptors,
                                                const training_program& program, rank_id own_rank,
                                                const source_memories* sources);

// Maps the four memories of one incarnation (fork_worker's descriptors 2 to 5).
struct memory_descriptors {
  unique_fd progress;
  unique_fd snapshots;
  unique_fd bucket;
  unique_fd state;
};
[[nodiscard]] result<worker_memory> map_worker_memory(memory_descriptors descriptors,
                                                      const training_program& program);

}  // namespace ftrt::worker
