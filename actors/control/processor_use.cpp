#include <actors/control/processor_use.hpp>
#include <actors/host/process_state.hpp>

namespace ftrt::actors {

std::optional<recovery::processor_use> processor_use_of(const host::worker_entry& worker,
                                                        const storage::progress_view& page) {
  const auto time = host::time_of_thread(worker.pid, page.thread);
  if (!time) return std::nullopt;
  return recovery::processor_use{time->ran, time->waited, time->runnable};
}

}  // namespace ftrt::actors
