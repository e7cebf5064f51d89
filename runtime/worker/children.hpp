#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/types.hpp>
#include <optional>
#include <vector>

namespace ftrt::worker {

// The zygote's children: who they are, until they are reaped. Nobody else in the process may wait
// for children. One thread.
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
  [[nodiscard]] std::optional<ended> next_ended() const;
  // Whether this process has a child at all, known or not.
  [[nodiscard]] static bool any();
  void reap(const ended& gone);
  // SIGKILL to all, stopped ones too. They are still to be reaped.
  void kill_all();

 private:
  std::vector<child> alive_;
};

}  // namespace ftrt::worker
