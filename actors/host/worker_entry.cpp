#include <actors/host/process_state.hpp>
#include <actors/host/worker_entry.hpp>

namespace ftrt::host {

void text_tail::append(std::string_view text) {
  const std::lock_guard lock{mutex_};
  text_.append(text);
  if (text_.size() > capacity_bytes) text_.erase(0, text_.size() - capacity_bytes);
}

std::string text_tail::text() const {
  const std::lock_guard lock{mutex_};
  return text_;
}

// Its pidfd may have fired though the table has not come to look at it.
bool is_reachable(const worker_entry& worker) {
  return !worker.dead && !has_ended(worker.pidfd.get());
}

}  // namespace ftrt::host
