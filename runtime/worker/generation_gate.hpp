#pragma once

#include <ftrt/types.hpp>
#include <memory>
#include <mutex>
#include <runtime/communicator/communicator.hpp>

namespace ftrt::worker {

// Where the control thread reaches the training thread's communicator, whenever a revoke arrives:
// before it was made, while it is set up, in a collective, or after it.
//
// Invariant: once revoke(g) has returned, every communicator of a generation up to g that is or
// will be published has been aborted. The lock is held for abort() alone, which does not block; the
// gate's reference is only ever dropped on the training thread, where a communicator must die.
class generation_gate {
 public:
  // Training thread. False: its generation was revoked before; it has been aborted and is not kept.
  [[nodiscard]] bool publish(std::shared_ptr<communicator> comm);
  // Training thread, before it lets go of its last communicator.
  void withdraw();

  // Control thread. Revoked generations only grow.
  void revoke(generation_id generation);

  // Any thread.
  [[nodiscard]] bool is_revoked(generation_id generation) const;

 private:
  mutable std::mutex mutex_;
  generation_id revoked_;  // this one and all before it
  std::shared_ptr<communicator> current_;
};

}  // namespace ftrt::worker
