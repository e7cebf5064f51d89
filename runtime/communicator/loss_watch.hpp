#pragma once

#include <atomic>
#include <cstdint>
#include <ftrt/types.hpp>
#include <functional>
#include <runtime/communicator/peers.hpp>
#include <thread>
#include <vector>

namespace ftrt::shm {

// A thread that does nothing but wait for the death of a peer, so that it is known while this rank
// computes and looks at nobody. Asleep but for a look 20 times a second; the kernel's wake-up takes
// about 0.1 ms.
//
// Owned by the communicator, made and destroyed on its thread, and must go before `seat` does.
// Where the kernel cannot sleep on several words, or has no thread to give, nobody watches, and a
// death is found by the next collective.
class loss_watch {
 public:
  // `tell` is called on the watching thread, at most once, with all that were seen dead.
  loss_watch(const peers& seat, std::function<void(std::vector<rank_id>)> tell);
  ~loss_watch();  // waits for `tell`, where it is being called
  loss_watch(const loss_watch&) = delete;
  loss_watch& operator=(const loss_watch&) = delete;

 private:
  void watch(const peers& seat);

  std::function<void(std::vector<rank_id>)> tell_;
  std::atomic<std::uint32_t> stopped_{0};
  std::thread thread_;
};

}  // namespace ftrt::shm
