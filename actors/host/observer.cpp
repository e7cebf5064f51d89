#include <actors/host/log.hpp>
#include <actors/host/observer.hpp>
#include <exception>
#include <utility>

namespace ftrt::host {
namespace {

// A callback that throws breaks its promise; it must not take its host down with it.
template <class Callback, class News>
void tell(const Callback& callback, const News& news) {
  if (!callback) return;
  try {
    callback(news);
  } catch (const std::exception& e) {
    host::log().error("a callback of run_options threw: {}", e.what());
  } catch (...) {
    host::log().error("a callback of run_options threw");
  }
}

}  // namespace

observer::observer(std::function<void(const event&)> on_event,
                   std::function<void(const progress&)> on_progress)
    : on_event_(std::move(on_event)),
      on_progress_(std::move(on_progress)),
      thread_([this] { deliver(); }) {}

observer::~observer() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void observer::post(event what) {
  {
    const std::lock_guard lock{mutex_};
    if (events_.size() == max_queued_events) {
      events_.pop_front();
      ++dropped_;
    }
    events_.push_back(std::move(what));
  }
  wake_.notify_one();
}

void observer::post(const progress& latest) {
  {
    const std::lock_guard lock{mutex_};
    latest_ = latest;
  }
  wake_.notify_one();
}

void observer::deliver() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !events_.empty() || latest_; });
    auto events = std::exchange(events_, {});
    const auto latest = std::exchange(latest_, std::nullopt);
    const auto dropped = std::exchange(dropped_, 0);
    const bool last_round = stopping_;
    lock.unlock();
    if (dropped > 0) {
      event lost;
      lost.subject = "observer";
      lost.text = std::to_string(dropped) + " events were dropped: the event callback is too slow";
      tell(on_event_, lost);
    }
    for (const auto& what : events) tell(on_event_, what);
    if (latest) tell(on_progress_, *latest);
    lock.lock();
    if (last_round && events_.empty()) return;
  }
}

}  // namespace ftrt::host
