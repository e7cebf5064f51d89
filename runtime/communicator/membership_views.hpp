#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <span>
#include <vector>

namespace ftrt::shm {

// What a communicator needs of a membership: memory that is mapped already, by whomever. Ranks that
// are threads of one process may share one mapping (ThreadSanitizer then sees what they do to each
// other).
struct membership_views {
  generation_id generation;
  rank_id rank;
  std::uint32_t world_size = 0;
  std::span<std::byte> sync_block;
  std::vector<std::span<std::byte>> buckets;  // of every rank, in rank order
  std::chrono::nanoseconds timeout{0};
  std::shared_ptr<void> owner;  // of the memory; may be null where others keep it
};

// As make_shm_communicator().
[[nodiscard]] result<std::unique_ptr<communicator>> make_communicator(membership_views views);

}  // namespace ftrt::shm
