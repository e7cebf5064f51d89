#include <actors/recovery/starvation.hpp>

namespace ftrt::recovery {
namespace {

// The kernel brings the account of a running thread up to date at its timer's ticks, 10 ms apart at
// most (a second on a core without ticks, where a thread that spins is excused for that long at a
// time): one that has not moved for longer is of a thread that waits.
constexpr std::chrono::milliseconds account_is_late{50};

}  // namespace

void starvation::note(time_point now, const std::optional<processor_use>& use) {
  if (!use) return;
  const bool still = last_ && last_->runnable && use->runnable && last_->ran == use->ran &&
                     last_->waited == use->waited;
  if (!still) still_since_ = now;
  const auto lasting = now - still_since_;
  pending_ = lasting >= account_is_late ? lasting : std::chrono::nanoseconds{0};
  last_ = use;
}

std::optional<std::chrono::nanoseconds> starvation::total() const {
  if (!last_) return std::nullopt;
  return last_->waited + pending_;
}

}  // namespace ftrt::recovery
