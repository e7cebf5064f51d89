#include <actors/control/drop_account.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

std::string in_seconds(std::chrono::nanoseconds time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

void drop_account::note_gap(std::chrono::nanoseconds now) {
  if (looked_at_ && now - *looked_at_ > standstill) {
    stood_for_ = now - *looked_at_;
    stood_until_ = now;
  }
}

void drop_account::taken_up(std::chrono::nanoseconds now) {
  const std::lock_guard lock{mutex_};
  looked_at_ = now;
}

void drop_account::looked(std::chrono::nanoseconds now) {
  const std::lock_guard lock{mutex_};
  note_gap(now);
  looked_at_ = now;
}

std::optional<std::string> drop_account::drop(iteration_id iteration, bool waited,
                                              std::chrono::nanoseconds now) {
  const std::lock_guard lock{mutex_};
  note_gap(now);
  const bool just_stood = stood_until_ && now - *stood_until_ <= aftermath;
  if (just_stood || !waited) ++own_;
  stood_ = stood_ || just_stood;
  ++untold_;
  last_ = iteration;
  if (told_at_ && now - *told_at_ < interval) return std::nullopt;
  told_at_ = now;
  return take();
}

std::optional<std::string> drop_account::rest() {
  const std::lock_guard lock{mutex_};
  if (untold_ == 0) return std::nullopt;
  return take();
}

std::string drop_account::take() {
  const auto count = std::exchange(untold_, 0);
  const auto own = std::exchange(own_, 0);
  std::string ours = "they were overwritten before this process came to them";
  if (std::exchange(stood_, false)) {
    ours += ", which stood still for " + in_seconds(stood_for_) +
            " (it was stopped, or got no processor)";
  }
  const std::string disks =
      "the disk is slower than checkpoint.every_iterations = " + std::to_string(every_iterations_) +
      " asks for";
  std::string text = std::to_string(count) + (count == 1 ? " was" : " were") +
                     " dropped, the last of iteration " + std::to_string(last_.value()) + ": ";
  if (own == count) return text + ours;
  text += disks;
  return own == 0 ? text : text + "; but for " + std::to_string(own) + ": " + ours;
}

}  // namespace ftrt::actors
