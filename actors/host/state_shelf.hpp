#pragma once

#include <ftrt/types.hpp>
#include <memory>
#include <mutex>
#include <storage/shared_memory.hpp>
#include <string>
#include <utility>

namespace ftrt::host {

// A whole state that control put together from snapshots, for new workers to copy from.
struct shelved_state {
  iteration_id iteration;
  storage::shared_memory memory;
  std::string digest;  // xxh3-128 of all of it
};

// Where the newest restored state lies. It stays when its generation trains: the branch of history
// began from it, so that until the next snapshot nothing else in memory can bring the ranks back.
// Costs one state's memory from the first such recovery on. Any thread.
class state_shelf {
 public:
  void put(shelved_state state) {
    const std::lock_guard lock{mutex_};
    state_ = std::make_shared<const shelved_state>(std::move(state));
  }
  // nullptr: nothing lies there.
  [[nodiscard]] std::shared_ptr<const shelved_state> get() const {
    const std::lock_guard lock{mutex_};
    return state_;
  }
  void clear() {
    const std::lock_guard lock{mutex_};
    state_.reset();
  }
  // History past `iteration` is void.
  void roll_back_to(iteration_id iteration) {
    const std::lock_guard lock{mutex_};
    if (state_ && state_->iteration > iteration) state_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const shelved_state> state_;
};

}  // namespace ftrt::host
