#include <actors/control/digest_reader.hpp>
#include <string>

namespace ftrt::actors {

recovery::digest_watch::judgement digest_reader::look(generation_id generation) {
  watch_.begin(generation);
  for (std::uint32_t rank = 0; rank < context_->values.cluster.ranks; ++rank) {
    read(rank_id{rank});
  }
  return watch_.judge();
}

void digest_reader::read(rank_id rank) {
  rings_.read(rank, [&](const storage::progress_record& record) {
    if (record.kind != storage::record_kind::digest) return;
    const auto digest = storage::digest_in(record);
    watch_.add(rank, generation_id{record.generation}, iteration_id{record.iteration},
               std::to_string(digest.high) + ":" + std::to_string(digest.low));
  });
}

}  // namespace ftrt::actors
