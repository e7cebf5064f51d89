#pragma once

#include <cstddef>
#include <functional>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <vector>

namespace ftrt::worker {

// The worker's end of one control socket: frames in and out, without ever blocking. The control
// thread polls fd() for reading, and for writing while has_pending().
//
// The other end is an actor that may die at any moment, or send nonsense. Then the link goes down,
// for good and without further ado: up() is false, send() does nothing, and the owner waits for
// another socket.
class control_link {
 public:
  // What may wait to be written. An actor that does not read so much is as good as dead.
  static constexpr std::size_t max_pending_bytes = 1u << 20;

  control_link() = default;
  explicit control_link(unique_fd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] bool up() const { return socket_.valid(); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool has_pending() const { return !pending_.empty(); }

  void send(const protocol::message& m);
  void on_writable();
  // Reads once and hands over each whole message. `handle` must not destroy the link. False: there
  // was nothing to read, or the link is down now.
  bool on_readable(const std::function<void(const protocol::message&)>& handle);

 private:
  void flush();
  void go_down(const std::string& why);

  unique_fd socket_;
  protocol::frame_reader reader_;
  std::vector<std::byte> pending_;
};

}  // namespace ftrt::worker
