#pragma once

#include <gtest/gtest.h>

#include <actors/control/snapshot_sets.hpp>
#include <memory>
#include <optional>
#include <storage/snapshot.hpp>
#include <vector>

namespace ftrt::actors::testing {

inline constexpr std::uint32_t parts = 2;

inline state_layout two_tensors() {
  state_layout layout;
  layout.tensors = {{"model.a", dtype::f32, {32}, tensor_section::parameter, 0, 128},
                    {"model.b", dtype::f32, {32}, tensor_section::parameter, 128, 128}};
  layout.arena_bytes = 256;
  return layout;
}

// One incarnation's memory, dead or not, and its writer.
struct snapshot_memory {
  explicit snapshot_memory(std::uint32_t rank) : entry(std::make_shared<host::worker_entry>()) {
    entry->rank = rank_id{rank};
    entry->incarnation = incarnation_id{1};
    entry->snapshots =
        storage::shared_memory::create("snapshots", storage::snapshot_memory_bytes(256)).value();
    entry->dead = true;
    writer.emplace(entry->snapshots, 256);
  }

  void write(std::uint64_t iteration, std::uint64_t generation = 1, std::uint32_t branch = 1) {
    const auto range = part_of(two_tensors(), entry->rank.value(), parts);
    storage::snapshot_header header;
    header.generation = generation_id{generation};
    header.branch = branch_id{branch};
    header.iteration = iteration_id{iteration};
    header.part = entry->rank.value();
    header.parts = parts;
    header.begin_bytes = range.begin_bytes;
    const std::vector<std::byte> content(range.end_bytes - range.begin_bytes,
                                         static_cast<std::byte>(iteration + entry->rank.value()));
    ASSERT_TRUE(writer->write(header, content));
  }

  std::shared_ptr<host::worker_entry> entry;
  std::optional<storage::snapshot_writer> writer;
};

}  // namespace ftrt::actors::testing
