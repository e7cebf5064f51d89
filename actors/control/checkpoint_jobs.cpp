#include <actors/control/checkpoint_jobs.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>
#include <chrono>
#include <optional>
#include <storage/checkpoint.hpp>
#include <storage/finite.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

constexpr const char* not_finite = "not finite";  // context of that one error

std::string name_of(iteration_id iteration) {
  return "checkpoint:" + std::to_string(iteration.value());
}

bool is_catalogued(storage::catalog& catalog, iteration_id iteration,
                   std::optional<branch_id> branch = std::nullopt) {
  const auto usable = catalog.usable_checkpoints();
  return usable && std::ranges::any_of(*usable, [&](const storage::catalog_checkpoint& known) {
           return known.manifest.iteration == iteration &&
                  known.manifest.branch == branch.value_or(known.manifest.branch);
         });
}

// The newest checkpoint of a state that all ranks are known to have held.
std::optional<iteration_id> newest_agreed(const run_context& context, storage::catalog& catalog) {
  const auto usable = catalog.usable_checkpoints();
  if (!usable) return std::nullopt;
  const auto found = std::ranges::find_if(*usable, [&](const auto& checkpoint) {
    return checkpoint.manifest.iteration <= context.board->agreed();
  });
  return found == usable->end() ? std::nullopt : std::optional(found->manifest.iteration);
}

void prune(const run_context& context, storage::catalog& catalog) {
  auto old = catalog.prunable(context.values.checkpoint.keep_last);
  if (!old) return context.record(event::kind::warning, "catalog", old.error().describe());
  const auto kept = newest_agreed(context, catalog);
  for (const auto& checkpoint : *old) {
    if (checkpoint.manifest.iteration == kept) continue;  // should those after it prove wrong
    // Row first: the catalog never names a file that is gone.
    auto removed = catalog.remove_row(checkpoint.manifest.iteration, checkpoint.manifest.branch);
    if (removed) removed = storage::remove_checkpoint(checkpoint.directory);
    if (!removed) {
      context.record(event::kind::warning, name_of(checkpoint.manifest.iteration),
                     "could not be pruned: " + removed.error().describe());
    }
  }
}

// C35: a NaN that was saved once would come back with every recovery.
result<void> check_finite(const state_layout& layout, const held_set& held) {
  const auto parts = static_cast<std::uint32_t>(held.parts.size());
  for (const auto& part : held.parts) {
    const auto bad =
        storage::first_not_finite(layout, part_of(layout, part.part, parts), part.content);
    if (bad) {
      return fail(error_code::refused,
                  *bad + " of rank " + std::to_string(part.rank.value()) +
                      " is not finite: it is no state to come back to, and is not kept",
                  not_finite);
    }
  }
  return {};
}

result<storage::checkpoint_manifest> write(const run_context& context,
                                           const std::filesystem::path& folder,
                                           const snapshot_set& set) {
  const auto& layout = context.host->program().layout;
  const auto held = hold(layout, set);
  if (!held) return tl::unexpected(held.error());
  if (auto finite = check_finite(layout, *held); !finite) return tl::unexpected(finite.error());
  storage::checkpoint_manifest header;
  header.run_id = context.run_id;
  header.branch = set.branch;
  header.generation = set.generation;
  header.iteration = set.iteration;
  header.world_size = context.values.cluster.ranks;
  header.created_ms = host::unix_now_ms();
  header.layout = layout;
  return storage::write_checkpoint(folder, std::move(header), held->parts);
}

result<void> catalogue(const run_context& context, storage::catalog& catalog,
                       const std::filesystem::path& folder,
                       const storage::checkpoint_manifest& written) {
  auto state = storage::checkpoint_state::committed;
  if (context.values.checkpoint.verify) {
    if (auto verified = storage::verify_checkpoint(folder); !verified) {
      return tl::unexpected(verified.error());
    }
    state = storage::checkpoint_state::verified;
  }
  return catalog.add_checkpoint(written, folder, state);
}

result<void> persist(const run_context& context, storage::catalog& catalog,
                     const snapshot_set& set) {
  const auto folder = context.directory->checkpoint(set.branch.value(), set.iteration.value());
  const auto written = write(context, folder, set);
  if (!written) return tl::unexpected(written.error());
  if (auto added = catalogue(context, catalog, folder, *written); !added) {
    // Its files would stand in the way of the next try, and a catalog that is rebuilt would take
    // them for history.
    static_cast<void>(storage::remove_checkpoint(folder));
    return added;
  }
  prune(context, catalog);
  return {};
}

}  // namespace

void post_persist(const run_context& context, snapshot_set set) {
  context.storage->post([&context, set = std::move(set)](storage::catalog& catalog) {
    // Ordered by an actor that died, and again by the one that took over.
    if (is_catalogued(catalog, set.iteration, set.branch)) {
      return context.post<checkpoint_actor>(
          checkpoint_settled{set.branch, set.iteration, true, {}});
    }
    const auto begun = std::chrono::steady_clock::now();
    const auto done = persist(context, catalog, set);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    checkpoint_settled settled{set.branch, set.iteration, done.has_value(), {}};
    if (done) {
      context.board->set_checkpoint(set.iteration, took.count());
      context.record(event::kind::checkpoint_committed, name_of(set.iteration),
                     "durable in " + std::to_string(static_cast<int>(took.count())) + " ms",
                     std::nullopt, set.iteration);
    } else {
      settled.text = done.error().describe();
      // On a busy disk the newer snapshot is the better one: no failure.
      const bool overtaken = done.error().code == error_code::aborted;
      const bool bad = done.error().context == not_finite;
      context.record(bad         ? event::kind::checkpoint_quarantined
                     : overtaken ? event::kind::warning
                                 : event::kind::checkpoint_failed,
                     name_of(set.iteration), settled.text, std::nullopt, set.iteration);
    }
    context.post<checkpoint_actor>(std::move(settled));
  });
}

void post_look_for(const run_context& context, iteration_id iteration) {
  context.storage->post([&context, iteration](storage::catalog& catalog) {
    if (!is_catalogued(catalog, iteration)) return;
    context.post<checkpoint_actor>(checkpoint_settled{{}, iteration, true, {}});
  });
}

}  // namespace ftrt::actors
