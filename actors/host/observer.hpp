#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <ftrt/event.hpp>
#include <ftrt/run.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace ftrt::host {

// Calls the embedding service back, on a thread of its own, one call at a time, so that a slow
// callback delays nobody. Events are queued (the oldest are dropped and counted beyond the bound);
// of progress only the latest counts. Any thread may post; the destructor delivers what is queued.
class observer {
 public:
  observer(std::function<void(const event&)> on_event,
           std::function<void(const progress&)> on_progress);
  ~observer();
  observer(const observer&) = delete;
  observer& operator=(const observer&) = delete;

  void post(event what);
  void post(const progress& latest);

 private:
  void deliver();

  static constexpr std::size_t max_queued_events = 4096;

  std::function<void(const event&)> on_event_;
  std::function<void(const progress&)> on_progress_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<event> events_;
  std::optional<progress> latest_;
  std::size_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ftrt::host
