#include <algorithm>
#include <runtime/worker/generation_gate.hpp>
#include <utility>

namespace ftrt::worker {

bool generation_gate::publish(std::shared_ptr<communicator> comm) {
  std::shared_ptr<communicator> previous;  // dropped on this thread, outside the lock
  const std::lock_guard lock{mutex_};
  if (comm->generation() <= revoked_) {
    comm->abort();
    return false;
  }
  previous = std::exchange(current_, std::move(comm));
  return true;
}

void generation_gate::withdraw() {
  std::shared_ptr<communicator> previous;
  const std::lock_guard lock{mutex_};
  previous = std::exchange(current_, nullptr);
}

void generation_gate::revoke(generation_id generation) {
  const std::lock_guard lock{mutex_};
  revoked_ = std::max(revoked_, generation);
  if (current_ && current_->generation() <= revoked_) current_->abort();
}

bool generation_gate::is_revoked(generation_id generation) const {
  const std::lock_guard lock{mutex_};
  return generation <= revoked_;
}

}  // namespace ftrt::worker
