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
  struct reaped : child {
    int wait_status = 0;
  };

  void add(const child& c) { alive_.push_back(c); }
  [[nodiscard]] bool empty() const { return alive_.empty(); }
  [[nodiscard]] std::size_t size() const { return alive_.size(); }

  // One child that has ended, or none. Does not block.
  [[nodiscard]] std::optional<reaped> reap();
  // SIGKILL to all, stopped ones too. They are still to be reaped.
  void kill_all();

 private:
  std::vector<child> alive_;
};

}  // namespace ftrt::worker
