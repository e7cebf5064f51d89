#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ftrt/types.hpp>
#include <mutex>
#include <optional>
#include <schemas/unique_fd.hpp>
#include <storage/shared_memory.hpp>
#include <string>
#include <vector>

namespace ftrt::host {

// The last bytes that a worker wrote to standard error. Bounded; any thread.
class text_tail {
 public:
  void append(std::string_view text);
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::size_t capacity_bytes = 8192;
  mutable std::mutex mutex_;
  std::string text_;
};

// One incarnation of a rank, alive or dead: its process and everything that it shares with control.
// Or a spare, which becomes one when the host table gives it rank and incarnation.
// Held by the host table and by whoever still reads its memories; those are unmapped with the last
// holder. The atomics are written by the host table only.
struct worker_entry {
  std::uint32_t serial = 0;  // of this run's workers and spares, in the order they were made
  bool spare = false;        // was forked ahead of need
  std::uint32_t zygote = 0;  // the how-manieth of the run forked it
  rank_id rank;              // with incarnation: of a spare, once it was handed out
  incarnation_id incarnation;
  storage::shared_memory progress;
  storage::shared_memory snapshots;
  storage::shared_memory bucket;
  storage::shared_memory state;
  unique_fd lifeline;        // our end
  unique_fd control;         // our end of the first control socket, until a trainer takes it
  unique_fd standard_error;  // read end
  text_tail errors;
  std::size_t forwarded_bytes = 0;  // of its output; the table's thread only

  std::atomic<pid_t> pid{0};
  unique_fd pidfd;  // set once, before `pid`
  std::atomic<bool> dead{false};
  std::atomic<bool> injected{false};      // the fault is one that the scenario asked for
  std::atomic<bool> struck{false};        // ... and that it did to itself: it killed itself by order
  std::atomic<std::int64_t> fault_ns{0};  // CLOCK_MONOTONIC of the fault where ftrt caused it

  // Written under the table's lock before `dead`.
  bool warm = false;                   // a spare that may be handed out
  std::chrono::nanoseconds warm_by{};  // a spare that is not warm by then is given up
  std::vector<std::uint32_t> sources;  // whose state a warm spare was told to expect, by serial
  bool doomed = false;                 // ftrt sent SIGKILL, or will as soon as there is a process
  std::string kill_cause;              // why ftrt killed it; empty where it did not
  std::string exit_cause;              // "killed by signal 9 (SIGKILL)"
};

// Whether anybody hears what is sent over its lifeline. That the send succeeds says nothing: when a
// worker has died, its memory's keeper holds the other end still. Under the table's lock.
[[nodiscard]] bool is_reachable(const worker_entry& worker);

}  // namespace ftrt::host
