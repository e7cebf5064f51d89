#pragma once

#include <chrono>
#include <cstddef>
#include <ftrt/error.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <span>
#include <utility>
#include <vector>

// Messages over sockets, for both halves: packets with descriptors beside them (zygote channel,
// lifeline) and frames in a stream (control socket).
//
//   auto ends = socket_pair(SOCK_SEQPACKET);
//   send_packet(ends->first.get(), fork_worker{rank, incarnation}, descriptors);
//   auto got = receive_packet(ends->second.get());          // poll() said that it is readable
//   if (!got && got.error().code == end_of_channel) ...     // the other process is gone
//
// No function keeps state; each may run on any thread, one sender and one receiver a socket at a
// time. None raises SIGPIPE, none depends on O_NONBLOCK. Errors common to all:
//   busy       nothing to read, or no room to write: poll() and try again
//   peer_lost  the channel ended
//   corrupt, unsupported, refused   as decode() says: close the channel
namespace ftrt::protocol {

using time_point = std::chrono::steady_clock::time_point;

// The code of an error that says: the other end was closed, by its owner or by its owner's death.
inline constexpr error_code end_of_channel = error_code::peer_lost;

// What Linux passes beside one packet.
inline constexpr std::size_t max_descriptors = 253;
// A larger message travels as a sealed memfd, named by a reference in the packet: the kernel bounds
// a packet by its socket buffer (208 KiB by default), a layout may have megabytes.
inline constexpr std::size_t max_packet_bytes = 64u << 10;

// A message and what came beside it; whoever drops the packet closes the descriptors.
struct packet {
  message body;
  std::vector<unique_fd> descriptors;
};

// How many descriptors messages.hpp promises beside `m`. receive_packet() gives what came; whoever
// uses descriptors compares first.
[[nodiscard]] std::size_t promised_descriptors(const message& m);

// Two connected ends, close-on-exec, blocking, with large buffers. `type`: SOCK_SEQPACKET or
// SOCK_STREAM.
[[nodiscard]] result<std::pair<unique_fd, unique_fd>> socket_pair(int type);

// Sends all or nothing and never blocks. The caller keeps its descriptors. invalid_argument: a
// field beyond its limit, or more descriptors than fit.
[[nodiscard]] result<void> send_packet(int fd, const message& m,
                                       std::span<const int> descriptors = {});

// Takes one packet, never blocks. The descriptors are close-on-exec. A packet that is longer than
// max_packet_bytes, or that lost descriptors on its way (too many, or no free number here), is
// corrupt, and what came of it is closed.
[[nodiscard]] result<packet> receive_packet(int fd);

// The same, but waits: timeout when nothing came.
[[nodiscard]] result<packet> receive_packet(int fd, time_point until);

// Writes a whole frame, waiting for room until the deadline. After an error a part of the frame may
// be written, so the stream is unusable: close it. Threads that share a socket need a lock.
[[nodiscard]] result<void> write_frame(int fd, const message& m, time_point until);

// Feeds the reader with what the stream has, never blocks. busy: nothing there.
[[nodiscard]] result<void> read_available(int fd, frame_reader& reader);

}  // namespace ftrt::protocol
