#include <runtime/communicator/sync_block.hpp>

#include <runtime/communicator/shm_communicator.hpp>

namespace ftrt {
namespace shm {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t header_bytes = align_up(sizeof(block_header), page_bytes);
constexpr std::size_t area_bytes = align_up(sizeof(rank_area), page_bytes);
constexpr std::size_t mailbox_bytes = align_up(sizeof(mailbox), page_bytes);

}  // namespace

block_header& sync_block::header() const {
  return *reinterpret_cast<block_header*>(memory_);
}

rank_area& sync_block::area(std::uint32_t rank) const {
  FTRT_ASSERT(rank < world_size_);
  return *reinterpret_cast<rank_area*>(memory_ + header_bytes + rank * area_bytes);
}

mailbox& sync_block::letters(std::uint32_t from, std::uint32_t to) const {
  FTRT_ASSERT(from < world_size_ && to < world_size_);
  const std::size_t index = std::size_t{from} * world_size_ + to;
  std::byte* mailboxes = memory_ + header_bytes + world_size_ * area_bytes;
  return *reinterpret_cast<mailbox*>(mailboxes + index * mailbox_bytes);
}

}  // namespace shm

std::size_t shm_sync_block_bytes(std::uint32_t world_size) {
  const std::size_t ranks = world_size;
  return shm::header_bytes + ranks * shm::area_bytes + ranks * ranks * shm::mailbox_bytes;
}

}  // namespace ftrt
