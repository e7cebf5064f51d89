#pragma once

#include <actors/host/observer.hpp>
#include <actors/host/storage_queue.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <ftrt/event.hpp>
#include <mutex>
#include <storage/catalog.hpp>
#include <storage/event_log.hpp>
#include <thread>
#include <vector>

namespace ftrt::host {

// The one thread that waits for the disk. It owns the catalog and the event log; everybody else
// posts work to it and is answered by whatever the work itself sends. Any thread may post.
//
// Two queues: jobs, in order and never dropped (their number is bounded by their senders: as many
// checkpoints as may be held, a few rows a generation), and events, written in batches between
// jobs. A disk that hangs for long costs the newest of these their place on it, with a count; the
// observer hears of all. Who has something to write again and again, whatever the disk does, asks
// for room first and is refused where a disk hangs.
class storage_thread final : public storage_queue {
 public:
  // Jobs that may wait before there is no room for what may be shed.
  static constexpr std::size_t max_waiting = 256;
  // Events that may wait.
  static constexpr std::size_t max_events = 16384;

  storage_thread(storage::catalog catalog, storage::event_log log, observer& watcher);
  // Does all queued work first.
  ~storage_thread() override;
  storage_thread(const storage_thread&) = delete;
  storage_thread& operator=(const storage_thread&) = delete;

  void post(job work) override;
  [[nodiscard]] bool post_if_room(job work) override;
  void record(event what) override;
  void record_now(event what) override;
  // Waits until everything posted before was done; false: not by the deadline.
  [[nodiscard]] bool drain(std::chrono::milliseconds deadline);

 private:
  void work();
  void run(const job& next);
  struct queued {
    event what;
    bool logged = false;
  };
  void announce(event& what);
  void queue(event what, bool logged);
  void write(const std::vector<queued>& events);
  void log(const event& what);

  storage::catalog catalog_;
  std::mutex log_mutex_;
  storage::event_log log_;
  observer& observer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<job> jobs_;
  std::vector<queued> events_;
  std::uint64_t shed_ = 0;  // events, since it was last told of
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ftrt::host
