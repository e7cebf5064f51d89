#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <actors/host/storage_thread.hpp>
#include <utility>

namespace ftrt::host {

namespace {

event told_of(std::uint64_t shed) {
  event lost;
  lost.what = event::kind::warning;
  lost.subject = "storage";
  lost.text = std::to_string(shed) + " events are on no record: the disk was too slow";
  lost.wall_time_ms = unix_now_ms();
  return lost;
}

}  // namespace

storage_thread::storage_thread(storage::catalog catalog, storage::event_log log, observer& watcher)
    : catalog_(std::move(catalog)),
      log_(std::move(log)),
      observer_(watcher),
      thread_([this] { work(); }) {}

storage_thread::~storage_thread() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void storage_thread::post(job work) {
  {
    const std::lock_guard lock{mutex_};
    jobs_.push_back(std::move(work));
  }
  wake_.notify_one();
}

bool storage_thread::post_if_room(job work) {
  {
    const std::lock_guard lock{mutex_};
    if (jobs_.size() >= max_waiting) return false;
    jobs_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void storage_thread::announce(event& what) {
  what.wall_time_ms = unix_now_ms();
  observer_.post(what);
}

void storage_thread::queue(event what, bool logged) {
  {
    const std::lock_guard lock{mutex_};
    if (events_.size() >= max_events) {
      ++shed_;
      return;
    }
    events_.push_back({std::move(what), logged});
  }
  wake_.notify_one();
}

void storage_thread::record(event what) {
  announce(what);
  queue(std::move(what), false);
}

void storage_thread::record_now(event what) {
  announce(what);
  log(what);
  queue(std::move(what), true);
}

void storage_thread::log(const event& what) {
  const std::lock_guard lock{log_mutex_};
  warn_of_failure("event log", log_.append(what));
}

bool storage_thread::drain(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  return idle_.wait_for(lock, deadline,
                        [this] { return jobs_.empty() && events_.empty() && !busy_; });
}

void storage_thread::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty() || !events_.empty(); });
    if (jobs_.empty() && events_.empty()) return;
    busy_ = true;
    auto events = std::exchange(events_, {});
    if (const auto shed = std::exchange(shed_, 0); shed > 0)
      events.push_back({told_of(shed), false});
    job next;
    if (!jobs_.empty()) {
      next = std::move(jobs_.front());
      jobs_.pop_front();
    }
    lock.unlock();
    write(events);
    if (next) run(next);
    lock.lock();
    busy_ = false;
    if (jobs_.empty() && events_.empty()) idle_.notify_all();
  }
}

void storage_thread::run(const job& next) {
  try {
    next(catalog_);
  } catch (const std::exception& e) {  // out of memory, say: whoever waits for it has a deadline
    host::log().error("storage thread: {}", e.what());
  }
}

void storage_thread::write(const std::vector<queued>& events) {
  if (events.empty()) return;
  std::vector<event> all;
  for (const auto& each : events) {
    if (!each.logged) log(each.what);
    all.push_back(each.what);
  }
  warn_of_failure("catalog", catalog_.add_events(all));
}

}  // namespace ftrt::host
