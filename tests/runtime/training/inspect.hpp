#pragma once

#include <cstring>
#include <runtime/training/program_impl.hpp>
#include <vector>

#include "rig.hpp"

// What a rank's memories hold.
namespace ftrt::testing {

inline training::state_view state_of(lone_rank& rank) {
  return {rank.program.get().map, rank.memories.state.data()};
}
inline std::vector<float> gradients_of(lone_rank& rank) {
  std::vector<float> g(rank.program.get().map.parameter_bytes / sizeof(float));
  std::memcpy(g.data(), rank.memories.bucket.data(), g.size() * sizeof(float));
  return g;
}
inline std::vector<storage::progress_record> records_of(lone_rank& rank,
                                                        storage::record_kind kind) {
  storage::progress_reader reader{rank.memories.progress};
  std::vector<storage::progress_record> records;
  while (auto r = reader.next()) {
    if (r->kind == kind) records.push_back(*r);
  }
  return records;
}

// No dropout, no momentum, no evaluation in between.
inline scenario plain() {
  auto s = tiny_mlp();
  s.model.dropout = 0;
  s.train.momentum = 0;
  s.train.evaluate_every_epochs = 0;
  return s;
}

}  // namespace ftrt::testing
