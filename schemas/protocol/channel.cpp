#include <schemas/protocol/channel.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <schemas/protocol/large_packet.hpp>
#include <string>

namespace ftrt::protocol {
namespace {

constexpr int buffer_bytes = 4 << 20;  // asked for; the kernel gives what its limits allow
constexpr std::size_t read_chunk_bytes = 64u << 10;

tl::unexpected<error> channel_ended() {
  return fail(end_of_channel, "the other end of the channel is closed");
}

tl::unexpected<error> socket_error(std::string_view what, int errno_value) {
  switch (errno_value) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return channel_ended();
    case EAGAIN:
    case ENOBUFS:
    case ETOOMANYREFS:  // descriptors in flight, which the other end has yet to take
      return fail(error_code::busy, std::string{what} + ": " + std::strerror(errno_value));
    default:
      return fail_errno(what, errno_value);
  }
}

// Calls again where a signal interrupted; gives the return value of the call.
template <class Call>
ssize_t uninterrupted(Call call) {
  ssize_t n = 0;
  do n = call();
  while (n < 0 && errno == EINTR);
  return n;
}

// Until `events` or the end of the channel, which the next call on the socket will tell.
result<void> wait_for(int fd, short events, time_point until) {
  for (;;) {
    using std::chrono::ceil, std::chrono::milliseconds;
    const auto left = ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd entry{fd, events, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return fail_errno("wait for a channel", errno);
    if (left <= 0) return fail(error_code::timeout, "the channel was not ready by its deadline");
  }
}

// One sendmsg() of `bytes` with `descriptors` beside it.
result<void> send_with_descriptors(int fd, std::span<const std::byte> bytes,
                                   std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    auto* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  const auto sent =
      uninterrupted([&] { return ::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent < 0) return socket_error("send a packet", errno);
  return {};
}

// Owns every descriptor of a received header, whatever else is wrong with the packet.
std::vector<unique_fd> take_descriptors(msghdr& header) {
  std::vector<unique_fd> taken;
  for (auto* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      taken.emplace_back(fd);
    }
  }
  return taken;
}

result<message> body_of(std::span<const std::byte> bytes, std::vector<unique_fd>& descriptors) {
  if (!is_large_packet(bytes)) return decode(bytes);
  if (descriptors.empty()) {
    return fail(error_code::corrupt, "a large message came without its memory");
  }
  const auto memory = std::move(descriptors.back());
  descriptors.pop_back();
  const auto content = read_large_packet(bytes, memory);
  if (!content) return tl::unexpected(content.error());
  return decode(*content);
}

}  // namespace

std::size_t promised_descriptors(const message& m) {
  if (std::holds_alternative<fork_worker>(m)) return 7;
  if (std::holds_alternative<worker_forked>(m)) return 1;
  if (std::holds_alternative<attach_control>(m)) return 1;
  if (const auto* sources = std::get_if<expect_sources>(&m)) return sources->count;
  const auto* j = std::get_if<join>(&m);
  if (j == nullptr) return 0;
  const bool with_state = j->role == state_role::receive || j->role == state_role::load_snapshot;
  return 1 + std::size_t{j->world_size} + (with_state ? 1 : 0);
}

result<std::pair<unique_fd, unique_fd>> socket_pair(int type) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return fail_errno("make a socket pair", errno);
  }
  std::pair ends{unique_fd{fds[0]}, unique_fd{fds[1]}};
  for (const int fd : fds) {
    for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
      if (::setsockopt(fd, SOL_SOCKET, option, &buffer_bytes, sizeof buffer_bytes) != 0) {
        return fail_errno("size a socket's buffers", errno);
      }
    }
  }
  return ends;
}

result<void> send_packet(int fd, const message& m, std::span<const int> descriptors) {
  const auto bytes = encode(m);
  if (!bytes) return tl::unexpected(bytes.error());
  const bool large = bytes->size() > max_packet_bytes;
  if (descriptors.size() + (large ? 1 : 0) > max_descriptors) {
    return fail(error_code::invalid_argument,
                std::string{name_of(m)} + " with " + std::to_string(descriptors.size()) +
                    " descriptors, at most " + std::to_string(max_descriptors) +
                    " pass beside one packet");
  }
  if (!large) return send_with_descriptors(fd, *bytes, descriptors);
  const auto made = make_large_packet(*bytes);
  if (!made) return tl::unexpected(made.error());
  std::vector<int> all{descriptors.begin(), descriptors.end()};
  all.push_back(made->memory.get());
  return send_with_descriptors(fd, made->reference, all);
}

result<packet> receive_packet(int fd) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(max_packet_bytes);
  iovec part{buffer.get(), max_packet_bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const auto n =
      uninterrupted([&] { return ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  if (n < 0) return socket_error("receive a packet", errno);
  packet got;
  got.descriptors = take_descriptors(header);
  if (n == 0) return channel_ended();
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return fail(error_code::corrupt,
                "a packet of more than " + std::to_string(max_packet_bytes) + " bytes");
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return fail(error_code::corrupt,
                "a packet lost descriptors: too many of them, or none free in this process (" +
                    std::to_string(got.descriptors.size()) + " came)");
  }
  auto body = body_of({buffer.get(), static_cast<std::size_t>(n)}, got.descriptors);
  if (!body) return tl::unexpected(body.error());
  got.body = std::move(*body);
  return got;
}

result<packet> receive_packet(int fd, time_point until) {
  for (;;) {
    if (auto ready = wait_for(fd, POLLIN, until); !ready) return tl::unexpected(ready.error());
    auto got = receive_packet(fd);
    if (got || got.error().code != error_code::busy) return got;
  }
}

result<void> write_frame(int fd, const message& m, time_point until) {
  const auto frame = encode_frame(m);
  if (!frame) return tl::unexpected(frame.error());
  std::span<const std::byte> rest{*frame};
  while (!rest.empty()) {
    const auto n = uninterrupted(
        [&] { return ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (n >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(n));
      continue;
    }
    const auto failed = socket_error("write a frame", errno);
    if (failed.value().code != error_code::busy) return failed;
    if (auto ready = wait_for(fd, POLLOUT, until); !ready) return ready;
  }
  return {};
}

result<void> read_available(int fd, frame_reader& reader) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(read_chunk_bytes);
  const auto n =
      uninterrupted([&] { return ::recv(fd, buffer.get(), read_chunk_bytes, MSG_DONTWAIT); });
  if (n < 0) return socket_error("read a stream", errno);
  if (n == 0) return channel_ended();
  reader.feed({buffer.get(), static_cast<std::size_t>(n)});
  return {};
}

}  // namespace ftrt::protocol
