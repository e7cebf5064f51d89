#include <actors/control/checkpoint_jobs.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <storage/checkpoint.hpp>
#include <storage/finite.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

// Context of errors that condemn a state, where others tell of the disk.
constexpr const char* not_to_be_kept = "not to be kept";

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
                  not_to_be_kept);
    }
  }
  return {};
}

result<storage::checkpoint_manifest> write(const run_context& context,
                                           const std::filesystem::path& folder,
                                           const held_set& held) {
  const auto& layout = context.host->program().layout;
  if (auto whole = verify(held); !whole) return tl::unexpected(whole.error());
  if (auto finite = check_finite(layout, held); !finite) return tl::unexpected(finite.error());
  storage::checkpoint_manifest header;
  header.run_id = context.run_id;
  header.branch = held.set.branch;
  header.generation = held.set.generation;
  header.iteration = held.set.iteration;
  header.world_size = context.values.cluster.ranks;
  header.created_ms = host::unix_now_ms();
  header.layout = layout;
  return storage::write_checkpoint(folder, std::move(header), held.parts);
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

// History was taken back while the set waited for the disk: as a checkpoint it would be one more
// that nobody may load.
result<void> check_history(const run_context& context, const snapshot_set& set) {
  const auto disputed = context.board->disputed();
  if (disputed && set.iteration > *disputed) {
    return fail(error_code::refused,
                "its state is past iteration " + std::to_string(disputed->value()) +
                    ", where the ranks last agreed",
                not_to_be_kept);
  }
  if (context.board->is_history(set.branch, set.iteration)) return {};
  return fail(error_code::aborted, "a rollback took its iteration back before it was written");
}

result<void> persist(const run_context& context, storage::catalog& catalog, const held_set& held) {
  const auto& set = held.set;
  if (auto valid = check_history(context, set); !valid) return valid;
  const auto folder = context.directory->checkpoint(set.branch.value(), set.iteration.value());
  if (auto known = context.history->settle(catalog); !known) return known;
  const auto written = write(context, folder, held);
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

event::kind kind_of(const error& why) {
  if (why.context == not_to_be_kept) return event::kind::checkpoint_quarantined;
  return why.code == error_code::aborted ? event::kind::checkpoint_dropped
                                         : event::kind::checkpoint_failed;
}

checkpoint_settled settle(const run_context& context, storage::catalog& catalog,
                          const held_set& held) {
  const auto iteration = held.set.iteration;
  checkpoint_settled settled{held.set.branch, iteration, true, {}};
  // Ordered by an actor that died, and again by the one that took over.
  if (is_catalogued(catalog, iteration, held.set.branch)) return settled;
  const auto begun = std::chrono::steady_clock::now();
  const auto done = persist(context, catalog, held);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  if (done) {
    context.board->set_checkpoint(held.set.branch, iteration, took.count());
    context.record(event::kind::checkpoint_committed, name_of(iteration),
                   "durable in " + std::to_string(static_cast<int>(took.count())) + " ms",
                   std::nullopt, iteration);
    return settled;
  }
  settled.committed = false;
  settled.text = done.error().describe();
  context.record(kind_of(done.error()), name_of(iteration), settled.text, std::nullopt, iteration);
  return settled;
}

}  // namespace

void post_persist(const run_context& context, std::shared_ptr<held_set> held) {
  context.storage->post([&context, held = std::move(held)](storage::catalog& catalog) mutable {
    checkpoint_settled settled{held->set.branch, held->set.iteration, false, "out of memory"};
    try {
      settled = settle(context, catalog, *held);
    } catch (const std::bad_alloc&) {  // whoever waits for it must hear of it
      context.record(event::kind::checkpoint_failed, name_of(held->set.iteration), settled.text);
    }
    held.reset();  // who is told may want the slots
    context.post<checkpoint_actor>(std::move(settled));
  });
}

void post_look_for(const run_context& context, iteration_id iteration) {
  const auto branch = context.board->current().branch;
  context.storage->post([&context, branch, iteration](storage::catalog& catalog) {
    if (!is_catalogued(catalog, iteration)) return;
    context.post<checkpoint_actor>(checkpoint_settled{branch, iteration, true, {}});
  });
}

}  // namespace ftrt::actors
