#include <actors/control/digest_reader.hpp>
#include <actors/host/host_table.hpp>

namespace ftrt::actors {

recovery::digest_watch::judgement digest_reader::look(generation_id generation) {
  watch_.begin(generation);
  for (std::uint32_t rank = 0; rank < context_->values.cluster.ranks; ++rank) {
    read(rank_id{rank});
  }
  return watch_.judge();
}

void digest_reader::read(rank_id rank) {
  const auto worker = context_->host->worker(rank);
  if (!worker) return;
  auto ring = rings_.find(rank);
  if (ring == rings_.end() || ring->second.worker != worker) {
    ring = rings_
               .insert_or_assign(rank,
                                 followed_ring{worker, storage::progress_reader{worker->progress}})
               .first;
  }
  while (const auto record = ring->second.reader.next()) {
    if (record->kind != storage::record_kind::digest) continue;
    const auto digest = storage::digest_in(*record);
    watch_.add(rank, generation_id{record->generation}, iteration_id{record->iteration},
               std::to_string(digest.high) + ":" + std::to_string(digest.low));
  }
}

}  // namespace ftrt::actors
