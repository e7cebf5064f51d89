#pragma once

#include <actors/control/context.hpp>
#include <actors/control/ring_follower.hpp>
#include <actors/recovery/digest_watch.hpp>
#include <ftrt/types.hpp>

namespace ftrt::actors {

// Reads the digest records out of all ranks' progress rings and compares them. Lives with its
// run_supervisor; a new one reads the rings from their beginning. Never blocks.
class digest_reader {
 public:
  explicit digest_reader(const run_context& context)
      : context_(&context), watch_(context.values.cluster.ranks), rings_(context) {}

  // What was written since the last call by members of this generation, the dead among them too.
  [[nodiscard]] recovery::digest_watch::judgement look(generation_id generation);

 private:
  void read(rank_id rank);

  const run_context* context_;
  recovery::digest_watch watch_;
  ring_follower rings_;
};

}  // namespace ftrt::actors
