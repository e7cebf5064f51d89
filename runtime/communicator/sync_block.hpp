#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <runtime/communicator/communicator.hpp>
#include <runtime/communicator/robust_lock.hpp>
#include <span>
#include <type_traits>

// How a generation's sync block is laid out. All zero means: nobody has come yet.
//
// Every word has one writer, the rank whose area it is in, except the header's and `sleepers`. A
// rank that changes any word of its own rings its `event` (see peers.hpp). Counters are 64 bits
// wide and only grow. What stands here was written by other processes: compare it, copy it, but
// never index or size anything by it.
namespace ftrt::shm {

inline constexpr std::uint32_t max_world_size = 64;  // lost ranks are one word of bits
inline constexpr std::size_t line_bytes = 128;       // two lines: the prefetcher fetches pairs

// Short regions are not reduced in place but published whole; see reduction_queue.hpp.
inline constexpr std::size_t short_region_bytes = 16 * 1024;
inline constexpr std::size_t short_regions_in_flight = 4;

// Of the last regions that were posted, what they are; see reduction_queue.hpp.
inline constexpr std::size_t remembered_regions = 64;

inline constexpr std::size_t message_slots = 4;
inline constexpr std::size_t message_slot_bytes = 32 * 1024;
inline constexpr std::size_t broadcast_slot_bytes = 64 * 1024;
inline constexpr std::size_t exchange_slots = 4;

// The lock of a rank may be read once the rank is seated, not while it is being made.
enum class standing : std::uint32_t { absent = 0, arriving, seated, left };

// Bits of block_header::ended.
inline constexpr std::uint32_t ended_by_abort = 1;
inline constexpr std::uint32_t ended_by_loss = 2;

struct alignas(line_bytes) block_header {
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint32_t> world_size;
  alignas(
      line_bytes) std::atomic<std::uint32_t> ended;  // futex; nonzero: no call succeeds any more
  std::atomic<std::uint64_t> lost;                   // a bit for each rank seen dead
};

// `stamp` is 0 while the slot is empty or being written, else key + 1.
struct exchange_slot {
  std::atomic<std::uint64_t> stamp;
  std::atomic<std::uint64_t> size_bytes;
  std::array<std::atomic<std::uint64_t>, communicator::max_word_bytes / 8> words;
};

struct alignas(line_bytes) rank_area {
  std::atomic<std::uint64_t> posted;  // regions contributed
  std::atomic<std::uint32_t> event;   // futex; rung after every change of a word here
  alignas(line_bytes) std::atomic<std::uint64_t> reduced;   // regions whose chunk was finished
  alignas(line_bytes) std::atomic<std::uint32_t> sleepers;  // written by peers
  alignas(line_bytes) robust_lock_word lock;
  std::atomic<standing> state;
  alignas(line_bytes) std::atomic<std::uint64_t> exchanges;  // contributed
  std::atomic<std::uint64_t> broadcasts_posted;              // chunks, of all roots
  std::atomic<std::uint64_t> broadcasts_taken;
  alignas(line_bytes) std::array<std::atomic<std::uint64_t>, remembered_regions> headings;
  alignas(line_bytes) std::array<exchange_slot, exchange_slots> exchanged;
  alignas(4096) std::byte shorts[2][short_regions_in_flight][short_region_bytes];
  std::byte broadcast[message_slots][broadcast_slot_bytes];
};

// The letters from one rank to another.
struct alignas(line_bytes) mailbox {
  std::atomic<std::uint64_t> sent;                       // chunks; written by the sender
  alignas(line_bytes) std::atomic<std::uint64_t> taken;  // written by the receiver
  alignas(line_bytes) std::uint64_t message_bytes[message_slots];
  alignas(4096) std::byte slots[message_slots][message_slot_bytes];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::is_standard_layout_v<rank_area> && std::is_standard_layout_v<mailbox>);

// Where things are in a mapped block. A view: the memory belongs to the membership.
class sync_block {
 public:
  // `memory`: at least shm_sync_block_bytes(world_size), page-aligned.
  sync_block(std::byte* memory, std::uint32_t world_size)
      : memory_(memory), world_size_(world_size) {}

  [[nodiscard]] std::uint32_t world_size() const { return world_size_; }
  [[nodiscard]] block_header& header() const;
  [[nodiscard]] rank_area& area(std::uint32_t rank) const;
  [[nodiscard]] mailbox& letters(std::uint32_t from, std::uint32_t to) const;

 private:
  std::byte* memory_;
  std::uint32_t world_size_;
};

}  // namespace ftrt::shm
