#pragma once

#include <sched.h>

#include <cstdint>
#include <ftrt/types.hpp>

namespace ftrt::worker {

// Keeps the thread that made it on a core that no other rank's training thread is kept on, until it
// is destroyed by that thread; the kernel may move it again then. For the moment between a join and
// the first iteration: threads that wake at once may be put on one core, where the second one waits
// until the first one's time is over, three milliseconds, with another core idle.
//
// Does nothing where there are fewer cores than ranks, or when the kernel refuses.
class core_hold {
 public:
  core_hold(rank_id rank, std::uint32_t world_size);
  ~core_hold();
  core_hold(const core_hold&) = delete;
  core_hold& operator=(const core_hold&) = delete;

 private:
  cpu_set_t before_{};
  bool held_ = false;
};

}  // namespace ftrt::worker
