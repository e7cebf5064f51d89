#pragma once

#include <ftrt/event.hpp>
#include <functional>
#include <storage/catalog.hpp>

namespace ftrt::host {

// What actors may ask of the disk: the storage thread's face towards them, and the seam at which
// their tests put a disk that does as they say. Work that is posted is done in order, and answers
// by whatever it sends. Any thread.
class storage_queue {
 public:
  using job = std::function<void(storage::catalog&)>;

  virtual ~storage_queue() = default;
  virtual void post(job work) = 0;
  // The same where there is room; false: there is none, and the job is not queued.
  [[nodiscard]] virtual bool post_if_room(job work) = 0;
  // Stamps the event with the time, tells the observer, queues it for log and catalog.
  virtual void record(event what) = 0;
  // The same, but it is in the event log when this returns: for what must be on record before it
  // happens. Blocks for the page cache.
  virtual void record_now(event what) = 0;
};

}  // namespace ftrt::host
