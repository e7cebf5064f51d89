#include <runtime/communicator/loss_watch.hpp>

#include <exception>
#include <runtime/communicator/futex.hpp>
#include <system_error>
#include <utility>

namespace ftrt::shm {

loss_watch::loss_watch(const peers& seat, std::function<void(std::vector<rank_id>)> tell)
    : tell_(std::move(tell)) {
  if (!can_sleep_on_several()) return;
  try {
    thread_ = std::thread{[this, &seat] { watch(seat); }};
  } catch (const std::system_error&) {
    // No thread to be had: as without a watch.
  }
}

loss_watch::~loss_watch() {
  if (!thread_.joinable()) return;
  stopped_.store(1);
  wake_all(stopped_);
  thread_.join();
}

void loss_watch::watch(const peers& seat) try {
  seat.await_end(stopped_);
  if (stopped_.load() != 0) return;
  if (auto lost = seat.lost(); !lost.empty()) tell_(std::move(lost));
} catch (const std::exception&) {
  // Out of memory: what was to be told is a hint, and control hears of the death from the kernel.
}

}  // namespace ftrt::shm
