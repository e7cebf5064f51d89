#pragma once

#include <actors/control/context.hpp>
#include <atomic>
#include <ftrt/status.hpp>
#include <memory>

namespace ftrt::actors {

// What a run says of itself, for `ftrt status` in another process: about once a second, by the
// storage thread, one at a time, so that a disk that hangs collects no work. Lives with the metrics
// actor. Never blocks.
class status_report {
 public:
  explicit status_report(const run_context& context) : context_(&context) {}

  // Has a new one written unless the last one is not written yet, or is younger than a second.
  void refresh(std::chrono::nanoseconds now);

 private:
  const run_context* context_;
  std::chrono::nanoseconds next_{};
  std::shared_ptr<std::atomic<bool>> under_way_ = std::make_shared<std::atomic<bool>>(false);
};

// As of now. Any thread.
[[nodiscard]] run_status status_of(const run_context& context);
// The last one of a run.
[[nodiscard]] run_status final_status(const run_context& context, const run_summary& summary);

}  // namespace ftrt::actors
