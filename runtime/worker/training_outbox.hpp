#pragma once

#include <deque>
#include <ftrt/error.hpp>
#include <memory>
#include <mutex>
#include <runtime/worker/training_events.hpp>
#include <schemas/unique_fd.hpp>

namespace ftrt::worker {

// What the training thread, and the watch of its communicator, tell the control thread, which polls
// fd(). push() takes a lock that is never held for long and makes one system call: the step loop
// does not wait for anybody.
//
// Bounded: each command gives at most four events, and only the newest `max_snapshots`
// announcements are kept (the slots they name are reused anyway).
class training_outbox {
 public:
  static constexpr std::size_t max_snapshots = 8;

  [[nodiscard]] static result<std::unique_ptr<training_outbox>> create();

  void push(training_event event);

  // Control thread. Readable while events are waiting.
  [[nodiscard]] int fd() const { return wake_.get(); }
  [[nodiscard]] std::deque<training_event> drain();

 private:
  explicit training_outbox(unique_fd wake) : wake_(std::move(wake)) {}
  void drop_oldest_snapshot();

  unique_fd wake_;
  std::mutex mutex_;
  std::deque<training_event> events_;
  std::size_t snapshots_ = 0;
};

}  // namespace ftrt::worker
