#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <runtime/worker/control_link.hpp>
#include <runtime/worker/log.hpp>
#include <schemas/protocol/channel.hpp>
#include <string>

namespace ftrt::worker {

void control_link::send(const protocol::message& m) {
  if (!up()) return;
  const auto frame = protocol::encode_frame(m);
  if (!frame) {
    say("cannot send " + std::string{protocol::name_of(m)} + ": " + frame.error().describe());
    return;
  }
  if (pending_.size() + frame->size() > max_pending_bytes) {
    return go_down("nobody reads it");
  }
  pending_.insert(pending_.end(), frame->begin(), frame->end());
  flush();
}

void control_link::on_writable() {
  if (up()) flush();
}

void control_link::flush() {
  std::size_t written = 0;
  while (written < pending_.size()) {
    const auto count = ::send(socket_.get(), pending_.data() + written, pending_.size() - written,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) return go_down(std::strerror(errno));
    written += static_cast<std::size_t>(count);
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(written));
}

bool control_link::on_readable(const std::function<void(const protocol::message&)>& handle) {
  if (!up()) return false;
  const auto read = protocol::read_available(socket_.get(), reader_);
  if (!read && read.error().code == error_code::busy) return false;
  // What came before the end counts.
  while (const auto m = reader_.next()) {
    if (*m) {
      handle(**m);
    } else {
      go_down(m->error().describe());
      return false;
    }
    if (!up()) return false;  // an answer could not be sent
  }
  if (!read) go_down(read.error().describe());
  return up();
}

void control_link::go_down(const std::string& why) {
  say("control socket closed: " + why + "; waiting for another one");
  socket_.reset();
  pending_.clear();
}

}  // namespace ftrt::worker
