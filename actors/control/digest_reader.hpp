#pragma once

#include <actors/control/context.hpp>
#include <actors/host/worker_entry.hpp>
#include <actors/recovery/digest_watch.hpp>
#include <ftrt/types.hpp>
#include <map>
#include <memory>
#include <storage/progress.hpp>

namespace ftrt::actors {

// Reads the digest records out of all ranks' progress rings and compares them. Lives with its
// run_supervisor; a new one reads the rings from their beginning. Never blocks.
class digest_reader {
 public:
  explicit digest_reader(const run_context& context)
      : context_(&context), watch_(context.values.cluster.ranks) {}

  // What was written since the last call by members of this generation, the dead among them too.
  [[nodiscard]] recovery::digest_watch::judgement look(generation_id generation);

 private:
  struct followed_ring {
    std::shared_ptr<const host::worker_entry> worker;
    storage::progress_reader reader;
  };
  void read(rank_id rank);

  const run_context* context_;
  recovery::digest_watch watch_;
  std::map<rank_id, followed_ring> rings_;
};

}  // namespace ftrt::actors
