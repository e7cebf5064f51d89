#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <span>
#include <storage/shared_memory.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

inline constexpr std::uint32_t snapshot_slots = 3;

// Bytes of one incarnation's snapshot memory: three slots that can each hold a whole arena (a part
// of it when several ranks share the work; untouched pages cost nothing).
[[nodiscard]] std::size_t snapshot_memory_bytes(std::uint64_t arena_bytes);

// What a slot says of itself.
struct snapshot_header {
  generation_id generation;
  branch_id branch;
  iteration_id iteration;
  std::uint32_t part = 0;
  std::uint32_t parts = 0;
  std::uint64_t begin_bytes = 0;  // where in the arena the content stood
  std::uint64_t length_bytes = 0;
  std::string digest = {};  // xxh3-128 of the content, 32 hex digits; made by write()
};

// The worker's end: the training thread writes parts of its state arena. Never blocks.
//
// A slot is free, writing (odd header), ready, or held by a reader. write() takes a free slot, else
// the oldest ready one; three slots and one reader always leave one.
class snapshot_writer {
 public:
  // Formats the memory.
  snapshot_writer(const shared_memory& memory, std::uint64_t arena_bytes);

  // Copies `content` (which stood at header.begin_bytes) and returns the slot. The digest is made
  // of the source in the same pass, while each piece is in the cache: it costs little over the
  // copy, and tells a torn or damaged slot from a whole one. Busy: every slot is held.
  [[nodiscard]] result<std::uint32_t> write(const snapshot_header& header,
                                            std::span<const std::byte> content);

 private:
  std::byte* base_;
  std::uint64_t arena_bytes_;
};

// Control's end: holds one slot while it is read. Movable; releases on destruction (back to ready).
// Everything in the slot is untrusted: header fields are checked against the arena's size here.
class held_snapshot {
 public:
  // Fails: not_found (free or being written), busy (held), corrupt (header beyond its bounds).
  [[nodiscard]] static result<held_snapshot> hold(const shared_memory& memory,
                                                  std::uint64_t arena_bytes, std::uint32_t slot);
  held_snapshot(held_snapshot&&) noexcept;
  held_snapshot& operator=(held_snapshot&&) noexcept;
  held_snapshot(const held_snapshot&) = delete;
  held_snapshot& operator=(const held_snapshot&) = delete;
  ~held_snapshot();

  [[nodiscard]] const snapshot_header& header() const { return header_; }
  [[nodiscard]] std::span<const std::byte> content() const { return content_; }
  // Is the content what the header's digest says? Reads all of it.
  [[nodiscard]] bool verify() const;

 private:
  held_snapshot() = default;
  void release();
  std::byte* slot_ = nullptr;
  snapshot_header header_;
  std::span<const std::byte> content_;
};

// Headers of the ready slots, newest iteration first: what a new checkpoint actor finds.
struct ready_snapshot {
  std::uint32_t slot = 0;
  snapshot_header header;
};
[[nodiscard]] std::vector<ready_snapshot> list_ready(const shared_memory& memory,
                                                     std::uint64_t arena_bytes);

}  // namespace ftrt::storage
