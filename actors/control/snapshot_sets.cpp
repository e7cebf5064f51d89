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

error overtaken() {
  return {error_code::aborted, "a newer snapshot took its place before it was read", ""};
}

}  // namespace

result<held_set> hold(const state_layout& layout, snapshot_set set) {
  held_set held;
  const auto parts = static_cast<std::uint32_t>(set.parts.size());
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto& worker = *set.parts[part].worker;
    const auto slot = set.parts[part].slot;
    auto snapshot = storage::held_snapshot::hold(worker.snapshots, layout.arena_bytes, slot);
    if (!snapshot) {
      const bool gone = snapshot.error().code == error_code::not_found;
      return tl::unexpected(gone ? overtaken() : std::move(snapshot.error()));
    }
    if (!matches(snapshot->header(), set, part, part_of(layout, part, parts))) {
      return tl::unexpected(overtaken());
    }
    held.parts.push_back({part, worker.rank, worker.incarnation, snapshot->content()});
    held.slots.push_back(std::move(*snapshot));
  }
  held.set = std::move(set);
  return held;
}

result<held_set> set_holder::hold(const state_layout& layout, snapshot_set set) {
  if (places_.outstanding() >= storage::max_held_slots) {
    return fail(error_code::busy, "as many snapshots wait for the disk as may be held");
  }
  auto held = actors::hold(layout, std::move(set));
  if (held) held->place = places_.take();
  return held;
}

result<void> verify(const held_set& held) {
  for (std::size_t part = 0; part < held.parts.size(); ++part) {
    if (!held.slots[part].verify()) return tl::unexpected(damaged(held.parts[part]));
  }
  return {};
}

std::vector<snapshot_set> complete_sets(
    const std::vector<std::shared_ptr<const host::worker_entry>>& workers,
    const state_layout& layout, std::uint32_t parts, branch_id branch, generation_id since) {
  std::map<std::pair<iteration_id, generation_id>, snapshot_set> sets;
  for (const auto& worker : workers) {
    for (const auto& [slot, header, held] :
         storage::list_whole(worker->snapshots, layout.arena_bytes)) {
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
      set.parts[header.part] = {worker, slot, held};
    }
  }
  std::vector<snapshot_set> complete;
  for (auto& [key, set] : sets) {
    if (whole(set)) complete.push_back(std::move(set));
  }
  std::ranges::reverse(complete);
  return complete;
}

namespace {

// One part into its place. The copy is verified, not the slot: a worker may write there at any
// time.
result<void> copy_part(const state_layout& layout, const snapshot_set& set, std::uint32_t part,
                       std::span<std::byte> arena) {
  const auto& worker = *set.parts[part].worker;
  const auto slot = set.parts[part].slot;
  const auto range = part_of(layout, part, static_cast<std::uint32_t>(set.parts.size()));
  const auto view = storage::snapshot_view::look(worker.snapshots, layout.arena_bytes, slot);
  if (!view && view.error().code != error_code::not_found) return tl::unexpected(view.error());
  if (!view || !matches(view->header(), set, part, range)) return tl::unexpected(overtaken());
  const auto content = view->content();
  const auto copy = arena.subspan(range.begin_bytes, content.size());
  if (!content.empty()) std::memcpy(copy.data(), content.data(), content.size());
  if (storage::digest_of(copy) == view->header().digest) return {};
  if (!view->is_current()) return tl::unexpected(overtaken());
  return tl::unexpected(damaged({part, worker.rank, worker.incarnation, {}}));
}

}  // namespace

result<storage::shared_memory> assemble(const state_layout& layout, const snapshot_set& set) {
  auto memory = storage::shared_memory::create("ftrt-restore", layout.arena_bytes);
  if (!memory) return memory;
  for (std::uint32_t part = 0; part < set.parts.size(); ++part) {
    if (auto copied = copy_part(layout, set, part, memory->bytes()); !copied) {
      return tl::unexpected(std::move(copied.error()));
    }
  }
  return memory;
}

}  // namespace ftrt::actors
