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

// As many as control may hold, and two that the writer takes in turn: while one is written, the one
// before it is whole in every rank's memory, whenever all of them die.
inline constexpr std::uint32_t snapshot_slots = 4;
inline constexpr std::uint32_t max_held_slots = snapshot_slots - 2;

// Bytes of one incarnation's snapshot memory: four slots that can each hold a whole arena (a part
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
// the oldest ready one; as control holds two at most, there always is one.
class snapshot_writer {
 public:
  // Formats the memory.
  snapshot_writer(const shared_memory& memory, std::uint64_t arena_bytes);

  // Copies `content` (which stood at header.begin_bytes) and returns the slot. The digest is made
  // of the source in the same pass, while each piece is in the cache: it costs little over the
  // copy, and tells a torn or damaged slot from a whole one. Busy: every slot is held, which
  // control never does.
  [[nodiscard]] result<std::uint32_t> write(const snapshot_header& header,
                                            std::span<const std::byte> content);

 private:
  struct taken_slot {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;
  };
  [[nodiscard]] std::optional<taken_slot> take();

  std::byte* base_;
  std::uint64_t arena_bytes_;
};

// Control's end: holds one slot while it is read. Movable; releases on destruction (back to ready).
// Everything in the slot is untrusted: header fields are checked against the arena's size here.
//
// Of one memory, one thread at a time takes holds (any may release them): the bound is counted
// before it is used up.
class held_snapshot {
 public:
  // One compare-and-swap. Fails: not_found (free or being written), busy (held, or max_held_slots
  // others are), corrupt (header beyond its bounds).
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

// A whole slot, looked at without a hold on it: one that somebody else holds, too. It takes none of
// the writer's slots, so the writer may come in between; what was read is good only where the
// copy's digest says so.
class snapshot_view {
 public:
  // Fails: not_found (free or being written), corrupt (header beyond its bounds).
  [[nodiscard]] static result<snapshot_view> look(const shared_memory& memory,
                                                  std::uint64_t arena_bytes, std::uint32_t slot);
  [[nodiscard]] std::uint32_t slot() const { return index_; }
  [[nodiscard]] const snapshot_header& header() const { return header_; }
  [[nodiscard]] std::span<const std::byte> content() const { return content_; }
  [[nodiscard]] bool is_held() const { return held_; }  // when it was looked at
  // Numbers grow with every write, whatever the iterations do.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // Nobody has begun to write another snapshot there.
  [[nodiscard]] bool is_current() const;

 private:
  snapshot_view() = default;
  std::uint32_t index_ = 0;
  const std::byte* slot_ = nullptr;
  std::uint64_t number_ = 0;
  bool held_ = false;
  snapshot_header header_;
  std::span<const std::byte> content_;
};

// The whole slots, newest iteration first.
struct listed_snapshot {
  std::uint32_t slot = 0;
  snapshot_header header;
  bool held = false;
};
[[nodiscard]] std::vector<listed_snapshot> list_whole(const shared_memory& memory,
                                                      std::uint64_t arena_bytes);
// Those of them that nobody holds.
[[nodiscard]] std::vector<listed_snapshot> list_ready(const shared_memory& memory,
                                                      std::uint64_t arena_bytes);

}  // namespace ftrt::storage
