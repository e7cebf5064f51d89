#pragma once

#include <actors/control/context.hpp>
#include <actors/control/ring_follower.hpp>
#include <actors/recovery/straggler_watch.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <string>

namespace ftrt::actors {

// Reads the compute times out of all ranks' progress rings, and the kernel's account of their
// training threads, for the straggler_watch. Lives with its run_supervisor. Never blocks.
class straggler_reader {
 public:
  explicit straggler_reader(const run_context& context);

  // What a generation that trains has written since the last call; nullopt: no window has passed.
  [[nodiscard]] std::optional<recovery::straggler_watch::judgement> look(
      generation_id generation, std::chrono::nanoseconds now);
  [[nodiscard]] recovery::straggler_watch& watch() { return watch_; }

 private:
  void read(rank_id rank);
  [[nodiscard]] std::optional<recovery::processor_use> use_of(rank_id rank) const;

  const run_context* context_;
  recovery::straggler_watch watch_;
  ring_follower rings_;
};

// What people are told: "computes for 212.0 ms an iteration, the others for 11.3 ms".
[[nodiscard]] std::string describe(const recovery::straggler& slow);

}  // namespace ftrt::actors
