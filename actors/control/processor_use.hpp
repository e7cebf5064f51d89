#pragma once

#include <actors/host/worker_entry.hpp>
#include <actors/recovery/starvation.hpp>
#include <optional>
#include <storage/progress.hpp>

namespace ftrt::actors {

// The kernel's account of a worker's training thread, which is looked for among the worker's own
// threads: its page may say anything. nullopt: not known. Any thread; does not block.
[[nodiscard]] std::optional<recovery::processor_use> processor_use_of(
    const host::worker_entry& worker, const storage::progress_view& page);

}  // namespace ftrt::actors
