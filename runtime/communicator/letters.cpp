#include <runtime/communicator/letters.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace ftrt::shm {
namespace {

// Calls `act(part)` for the chunks of `bytes`, at least once, until one fails.
template <class Byte, class Act>
result<void> for_each_chunk(std::span<Byte> bytes, std::size_t chunk_bytes, Act act) {
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(chunk_bytes, bytes.size() - at);
    if (auto done = act(bytes.subspan(at, size)); !done) return done;
    at += size;
  } while (at < bytes.size());
  return {};
}

// memcpy of nothing from nowhere is undefined.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) {
  if (size != 0) std::memcpy(to, from, size);
}

}  // namespace

result<void> letters::send(std::span<const std::byte> bytes, std::uint32_t to) {
  if (auto alive = peers_.check(); !alive) return alive;
  mailbox& box = peers_.block().letters(peers_.rank(), to);
  std::uint64_t& sent = sent_[to];
  return for_each_chunk(bytes, message_slot_bytes, [&](auto part) -> result<void> {
    if (sent >= message_slots) {
      auto free = peers_.await(to, box.taken, sent + 1 - message_slots);
      if (!free) return free;
    }
    const std::size_t slot = sent % message_slots;
    box.message_bytes[slot] = bytes.size();
    copy_bytes(box.slots[slot], part.data(), part.size());
    peers_.publish(box.sent, ++sent);
    return {};
  });
}

result<void> letters::recv(std::span<std::byte> bytes, std::uint32_t from) {
  if (auto alive = peers_.check(); !alive) return alive;
  mailbox& box = peers_.block().letters(from, peers_.rank());
  std::uint64_t& taken = taken_[from];
  return for_each_chunk(bytes, message_slot_bytes, [&](auto part) -> result<void> {
    if (auto come = peers_.await(from, box.sent, taken + 1); !come) return come;
    const std::size_t slot = taken % message_slots;
    if (const std::uint64_t found = box.message_bytes[slot]; found != bytes.size()) {
      return peers_.end_with({error_code::invalid_argument,
                              "expected a message of " + std::to_string(bytes.size()) +
                                  " bytes from rank " + std::to_string(from) + ", found one of " +
                                  std::to_string(found),
                              {}});
    }
    copy_bytes(part.data(), box.slots[slot], part.size());
    peers_.publish(box.taken, ++taken);
    return {};
  });
}

result<void> letters::broadcast(std::span<std::byte> bytes, std::uint32_t root) {
  if (auto alive = peers_.check(); !alive) return alive;
  return for_each_chunk(bytes, broadcast_slot_bytes,
                        [&](auto part) { return broadcast_chunk(part, root); });
}

result<void> letters::broadcast_chunk(std::span<std::byte> bytes, std::uint32_t root) {
  const std::uint64_t number = ++broadcasts_;
  std::byte* slot = peers_.area(root).broadcast[number % message_slots];
  rank_area& mine = peers_.mine();
  if (root == peers_.rank()) {
    if (number > message_slots) {
      if (auto free = await_taken(number - message_slots); !free) return free;
    }
    copy_bytes(slot, bytes.data(), bytes.size());
    peers_.publish(mine.broadcasts_posted, number);
  } else {
    auto come = peers_.await(root, peers_.area(root).broadcasts_posted, number);
    if (!come) return come;
    copy_bytes(bytes.data(), slot, bytes.size());
  }
  peers_.publish(mine.broadcasts_taken, number);
  return {};
}

result<void> letters::await_taken(std::uint64_t chunks) {
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (rank == peers_.rank()) continue;
    auto taken = peers_.await(rank, peers_.area(rank).broadcasts_taken, chunks);
    if (!taken) return taken;
  }
  return {};
}

}  // namespace ftrt::shm
