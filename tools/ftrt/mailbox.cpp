#include "tools/ftrt/mailbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <ftrt/error.hpp>
#include <utility>

namespace ftrt::cli {

mailbox::mailbox() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  FTRT_ASSERT(fd_ >= 0);
}

mailbox::~mailbox() {
  ::close(fd_);
}

void mailbox::wake() {
  const std::uint64_t one = 1;
  // Fails only where the counter is full, and then the reader is awake anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void mailbox::push(const event& happened) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.events.size() < capacity) {
      waiting_.events.push_back(happened);
    } else {
      ++waiting_.dropped;
    }
  }
  wake();
}

void mailbox::push(const progress& moment) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.moment = moment;
  }
  wake();
}

mailbox::contents mailbox::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace ftrt::cli
