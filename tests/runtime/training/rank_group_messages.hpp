#pragma once

#include <memory>

#include "rank_group.hpp"

namespace ftrt::testing {

struct rank_group::report {
  enum class kind { joined, join_failed, interrupted, parked, finished, failed, snapshot };
  kind what = kind::failed;
  std::uint64_t generation = 0;
  std::uint64_t iteration = 0;  // committed; of the snapshot
  std::uint64_t prepared = 0;
  std::uint64_t optimizer_steps = 0;
  double test_accuracy = 0;
  bool decided = false;
  bool has_state = false;
  bool final = false;
  std::uint32_t slot = 0, part = 0, parts = 0;
  char text[256] = {};
};

struct rank_group::command {
  enum class kind { join, train, park };
  kind what = kind::join;
  std::uint64_t generation = 0;
  protocol::state_role role = protocol::state_role::keep;
  std::uint64_t iteration = 0;
  std::uint32_t source = 0;
};

struct rank_group::member {
  std::unique_ptr<worker_memories> memories;
  pid_t pid = -1;
  int channel = -1;  // commands and reports
  int aborts = -1;   // generations to revoke
  bool has_state = false;
  std::uint64_t committed = 0;
  std::uint64_t prepared = 0;
  bool decided = false;
  std::uint32_t incarnation = 0;

  [[nodiscard]] bool alive() const { return pid > 0; }
};

}  // namespace ftrt::testing
