#pragma once

#include <array>
#include <cstddef>
#include <ftrt/error.hpp>
#include <schemas/unique_fd.hpp>
#include <span>
#include <vector>

// Inside of channel.cpp only: a message that is too large for a packet travels in a sealed memfd,
// the last descriptor beside a packet that holds this reference instead of the message:
//   u32 0xFFFFFFFF (no message begins so: it would be its number of segments), u32 0, u64 length
namespace ftrt::protocol {

struct large_packet {
  std::array<std::byte, 16> reference{};
  unique_fd memory;
};

[[nodiscard]] result<large_packet> make_large_packet(std::span<const std::byte> content);

[[nodiscard]] bool is_large_packet(std::span<const std::byte> bytes);

// Untrusted, both of them. Refuses (corrupt) a length of 0 or beyond max_message_bytes, and memory
// that is no memfd, is not sealed against shrinking, or has another size.
[[nodiscard]] result<std::vector<std::byte>> read_large_packet(std::span<const std::byte> reference,
                                                               const unique_fd& memory);

}  // namespace ftrt::protocol
