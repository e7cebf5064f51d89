#include <actors/control/snapshot_sets.hpp>
#include <algorithm>
#include <cstring>
#include <map>
#include <storage/digest.hpp>
#include <string>
#include <tuple>
#include <utility>

namespace ftrt::actors {
namespace {

bool matches(const storage::snapshot_header& header, const snapshot_set& set, std::uint32_t part,
             const layout_part& range) {
  return header.generation == set.generation && header.branch == set.branch &&
         header.iteration == set.iteration && header.part == part &&
         header.parts == set.parts.size() && header.begin_bytes == range.begin_bytes &&
         header.length_bytes == range.end_bytes - range.begin_bytes;
}

bool whole(const snapshot_set& set) {
  return std::ranges::all_of(set.parts, [](const auto& part) { return part.worker != nullptr; });
}

error damaged(const storage::checkpoint_part& part) {
  return {error_code::corrupt,
          "part " + std::to_string(part.part) + ", written by rank " +
              std::to_string(part.rank.value()) + ", is torn or damaged: its digest differs",
          ""};
}

// Every part as the set names it; what it holds has not been looked at.
result<held_set> hold_unverified(const state_layout& layout, const snapshot_set& set) {
  held_set held;
  const auto parts = static_cast<std::uint32_t>(set.parts.size());
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto& [worker, slot] = set.parts[part];
    auto snapshot = storage::held_snapshot::hold(worker->snapshots, layout.arena_bytes, slot);
    if (!snapshot) return tl::unexpected(std::move(snapshot.error()));
    if (!matches(snapshot->header(), set, part, part_of(layout, part, parts))) {
      return fail(error_code::aborted, "a newer snapshot took its place before it was read");
    }
    held.parts.push_back({part, worker->rank, worker->incarnation, snapshot->content()});
    held.slots.push_back(std::move(*snapshot));
  }
  return held;
}

}  // namespace

result<held_set> hold(const state_layout& layout, const snapshot_set& set) {
  auto held = hold_unverified(layout, set);
  if (!held) return held;
  // Not before all are held: while one is read, the next would be overwritten.
  for (std::size_t part = 0; part < held->parts.size(); ++part) {
    if (!held->slots[part].verify()) return tl::unexpected(damaged(held->parts[part]));
  }
  return held;
}

std::vector<snapshot_set> complete_sets(
    const std::vector<std::shared_ptr<const host::worker_entry>>& workers,
    const state_layout& layout, std::uint32_t parts, branch_id branch, generation_id since) {
  std::map<std::pair<iteration_id, generation_id>, snapshot_set> sets;
  for (const auto& worker : workers) {
    for (const auto& [slot, header] : storage::list_ready(worker->snapshots, layout.arena_bytes)) {
      // A part is its rank's own.
      if (header.branch != branch || header.generation < since || header.parts != parts ||
          header.part != worker->rank.value()) {
        continue;
      }
      auto& set = sets[{header.iteration, header.generation}];
      set.generation = header.generation;
      set.branch = header.branch;
      set.iteration = header.iteration;
      set.parts.resize(parts);
      set.parts[header.part] = {worker, slot};
    }
  }
  std::vector<snapshot_set> complete;
  for (auto& [key, set] : sets) {
    if (whole(set)) complete.push_back(std::move(set));
  }
  std::ranges::reverse(complete);
  return complete;
}

result<storage::shared_memory> assemble(const state_layout& layout, const snapshot_set& set) {
  auto held = hold_unverified(layout, set);
  if (!held) return tl::unexpected(std::move(held.error()));
  auto memory = storage::shared_memory::create("ftrt-restore", layout.arena_bytes);
  if (!memory) return memory;
  const auto parts = static_cast<std::uint32_t>(held->parts.size());
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto content = held->parts[part].content;
    const auto copy =
        memory->bytes().subspan(part_of(layout, part, parts).begin_bytes, content.size());
    if (!content.empty()) std::memcpy(copy.data(), content.data(), content.size());
    // The copy is verified, not the slot: a worker may scribble over that at any time.
    if (storage::digest_of(copy) != held->slots[part].header().digest) {
      return tl::unexpected(damaged(held->parts[part]));
    }
  }
  return memory;
}

}  // namespace ftrt::actors
