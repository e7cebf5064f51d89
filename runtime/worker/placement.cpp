#include <runtime/worker/placement.hpp>

namespace ftrt::worker {
namespace {

// The how-manieth core of a set it is, from 0; CPU_SETSIZE: there are not so many.
int core_of(const cpu_set_t& cores, std::uint64_t index) {
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores) && index-- == 0) return core;
  }
  return CPU_SETSIZE;
}

}  // namespace

core_hold::core_hold(rank_id rank, std::uint32_t world_size) {
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  const auto count = static_cast<std::uint64_t>(CPU_COUNT(&before_));
  if (world_size == 0 || count < world_size) return;
  const int core = core_of(before_, rank.value() * count / world_size);
  if (core == CPU_SETSIZE) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  held_ = ::sched_setaffinity(0, sizeof one, &one) == 0;
}

core_hold::~core_hold() {
  if (held_) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace ftrt::worker
