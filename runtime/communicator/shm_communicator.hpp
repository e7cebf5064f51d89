#pragma once

#include <chrono>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <storage/shared_memory.hpp>
#include <vector>

namespace ftrt {

// Size of the sync block of a generation with `world_size` ranks. Control creates it zero-filled.
[[nodiscard]] std::size_t shm_sync_block_bytes(std::uint32_t world_size);

struct shm_membership {
  generation_id generation;
  rank_id rank;
  std::uint32_t world_size = 0;
  storage::shared_memory sync_block;            // this generation's, read-write
  std::vector<storage::shared_memory> buckets;  // of every rank, in rank order, read-write
  std::chrono::nanoseconds timeout{0};          // of any one wait; 0: none (abort ends it)
};

// The communicator of CPU ranks on one host. Construct it on the training thread: that thread's
// life is what the robust lock of this rank stands for, and it must be the one that destroys it.
//
// Does not wait for peers; the first collective does.
[[nodiscard]] result<std::unique_ptr<communicator>> make_shm_communicator(
    shm_membership membership);

}  // namespace ftrt
