#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/types.hpp>
#include <optional>
#include <vector>

namespace ftrt::worker {

// The zygote's children: who they are, until they are reaped. Nobody else in the process may wait
// for children. One thread.
//
// Those that it knows are the workers, and their memories' keepers once it has looked for them.
// What else the process may have, a helper that a user's library started, is reaped and never
// waited for.
class children {
 public:
  struct child {
    int pid = 0;
    rank_id rank;
    incarnation_id incarnation;
    std::uint32_t spare = 0;  // as it was ordered; 0: none
  };
  struct ended : child {
    int wait_status = 0;  // as waitpid() gives it
  };

  void add(const child& c) { alive_.push_back(c); }
  [[nodiscard]] bool empty() const { return alive_.empty(); }
  [[nodiscard]] std::size_t size() const { return alive_.size(); }

  // One child that has ended, or none; the same one until it is reaped. Control is told before
  // that: so long it can read the status from the kernel, and afterwards our word is on its way.
  // Does not block.
  [[nodiscard]] std::optional<ended> next_ended();
  void reap(const ended& gone);
  // SIGKILL to all workers, stopped ones too. They are still to be reaped.
  void kill_all();

  // SIGKILL to all keepers (memory_keeper), stopped ones too: for when the workers are gone. They
  // are reaped by next_ended(). Reads /proc.
  void kill_keepers();
  [[nodiscard]] bool has_keepers() const { return !keepers_.empty(); }

 private:
  // nullptr: it is no worker.
  [[nodiscard]] const child* find(int pid) const;

  std::vector<child> alive_;
  std::vector<int> keepers_;  // that were killed and not reaped yet
};

}  // namespace ftrt::worker
