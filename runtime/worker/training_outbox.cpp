#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <runtime/worker/training_outbox.hpp>
#include <utility>

namespace ftrt::worker {
namespace {

bool is_snapshot(const training_event& event) {
  return std::holds_alternative<protocol::snapshot_ready>(event);
}

}  // namespace

result<std::unique_ptr<training_outbox>> training_outbox::create() {
  unique_fd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!wake.valid()) return fail_errno("eventfd", errno);
  return std::unique_ptr<training_outbox>{new training_outbox{std::move(wake)}};
}

void training_outbox::push(training_event event) {
  {
    const std::lock_guard lock{mutex_};
    if (is_snapshot(event) && ++snapshots_ > max_snapshots) drop_oldest_snapshot();
    events_.push_back(std::move(event));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

std::deque<training_event> training_outbox::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof count);
  const std::lock_guard lock{mutex_};
  snapshots_ = 0;
  return std::exchange(events_, {});
}

void training_outbox::drop_oldest_snapshot() {
  events_.erase(std::find_if(events_.begin(), events_.end(), is_snapshot));
  --snapshots_;
}

}  // namespace ftrt::worker
