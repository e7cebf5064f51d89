#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace ftrt::worker {

// A bounded queue from one thread to another that has nothing else to do. The reader waits without
// a deadline: close() is what ends the wait.
template <class T>
class mailbox {
 public:
  explicit mailbox(std::size_t capacity) : capacity_(capacity) {}

  // Does not block. False: full or closed; `value` is gone.
  [[nodiscard]] bool push(T value) {
    {
      const std::lock_guard lock{mutex_};
      if (closed_ || queue_.size() >= capacity_) return false;
      queue_.push_back(std::move(value));
    }
    changed_.notify_one();
    return true;
  }

  // Blocks. Empty: closed; what was queued then is dropped.
  [[nodiscard]] std::optional<T> pop() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (closed_) return std::nullopt;
    std::optional<T> value{std::move(queue_.front())};
    queue_.pop_front();
    return value;
  }

  void close() {
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> queue_;
  bool closed_ = false;
};

}  // namespace ftrt::worker
