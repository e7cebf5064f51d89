#pragma once

#include <actors/control/context.hpp>
#include <actors/host/worker_entry.hpp>
#include <ftrt/types.hpp>
#include <map>
#include <memory>
#include <storage/progress.hpp>
#include <utility>

namespace ftrt::actors {

// Where one reader is in the progress rings of all ranks. Each reader has its own; a new one begins
// with what the rings still hold. Keeps the memory that it reads mapped. One thread; never blocks.
//
//   ring_follower rings{context};
//   rings.read(rank, [&](const storage::progress_record& record) { count(record); });
class ring_follower {
 public:
  explicit ring_follower(const run_context& context) : context_(&context) {}

  // What the rank has written since the last call, first the last words of the worker before this
  // one.
  template <class Reader>
  void read(rank_id rank, Reader&& reader) {
    const auto worker = context_->host->worker(rank);
    if (!worker) return;
    auto ring = rings_.find(rank);
    if (ring != rings_.end() && ring->second.worker != worker) {
      drain(ring->second, reader);
      rings_.erase(ring);
      ring = rings_.end();
    }
    if (ring == rings_.end()) {
      ring =
          rings_.emplace(rank, followed{worker, storage::progress_reader{worker->progress}}).first;
    }
    drain(ring->second, reader);
  }

 private:
  struct followed {
    std::shared_ptr<const host::worker_entry> worker;
    storage::progress_reader reader;
  };
  template <class Reader>
  static void drain(followed& ring, Reader& reader) {
    while (const auto record = ring.reader.next()) reader(*record);
  }

  const run_context* context_;
  std::map<rank_id, followed> rings_;
};

}  // namespace ftrt::actors
