#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <runtime/communicator/peers.hpp>
#include <span>

namespace ftrt::shm {

// Bytes of a rank's own memory to others, in chunks through rings in the sync block: one ring for
// each ordered pair, and one for each root of a broadcast. A message that fits a ring is buffered:
// send() returns without the receiver.
//
// Owned by the communicator, on its thread.
class letters {
 public:
  explicit letters(peers& all) : peers_(all) {}

  [[nodiscard]] result<void> send(std::span<const std::byte> bytes, std::uint32_t to);
  // `bytes` has the size of the message, else both sides fail (invalid_argument, aborted).
  [[nodiscard]] result<void> recv(std::span<std::byte> bytes, std::uint32_t from);
  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, std::uint32_t root);

 private:
  [[nodiscard]] result<void> broadcast_chunk(std::span<std::byte> bytes, std::uint32_t root);
  [[nodiscard]] result<void> await_taken(std::uint64_t chunks);

  peers& peers_;
  std::array<std::uint64_t, max_world_size> sent_{};   // chunks, to each rank
  std::array<std::uint64_t, max_world_size> taken_{};  // chunks, from each rank
  std::uint64_t broadcasts_ = 0;                       // chunks of all broadcasts so far
};

}  // namespace ftrt::shm
