#include <actors/control/memory_search.hpp>
#include <actors/control/source_search.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <storage/checkpoint.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

using recovery::rung;

// One search: begins on the searcher thread, and goes on, if it must, on the storage thread.
class search {
 public:
  search(const run_context& context, const recovery::find_source& what)
      : context_(context), what_(what), memory_(std::in_place, context, what) {}

  // What every checkpoint would have to be newer than to be preferred. Checkpoints of this process
  // are on the board; those before it are where its branch of history began, or before that, and
  // those past the last agreement do not count.
  std::optional<rung> in_memory() {
    const iteration_id newest_checkpoint{context_.board->last_checkpoint_iteration()};
    return memory_->newest(
        std::min(newest_checkpoint, what_.not_beyond.value_or(newest_checkpoint)));
  }
  // It holds the memories of the dead, which are not to wait for a disk that hangs.
  void forget_memory() { memory_.reset(); }

  std::optional<rung> anywhere(storage::catalog& catalog) {
    for (const auto& candidate : usable(catalog)) {
      if (context_.host->shelf().is_stale(what_.generation)) return std::nullopt;
      if (auto found = memory_->newest(candidate.manifest.iteration)) return found;
      if (auto found = checkpoint(catalog, candidate)) return found;
    }
    return memory_->newest(iteration_id{});
  }

  // Those that nobody may come back to, though nobody was about to.
  void set_aside_disputed(storage::catalog& catalog) {
    for (const auto& candidate : usable(catalog)) {
      const auto why = refusal(what_, rung::kind::checkpoint, candidate.manifest.iteration);
      if (!why.empty()) set_aside(catalog, candidate, why);
    }
  }

 private:
  std::vector<storage::catalog_checkpoint> usable(storage::catalog& catalog) {
    auto found = catalog.usable_checkpoints();
    if (found) return std::move(*found);
    context_.record(event::kind::warning, "catalog", found.error().describe());
    return {};
  }

  std::optional<rung> checkpoint(storage::catalog& catalog,
                                 const storage::catalog_checkpoint& candidate) {
    const auto iteration = candidate.manifest.iteration;
    if (const auto why = refusal(what_, rung::kind::checkpoint, iteration); !why.empty()) {
      set_aside(catalog, candidate, why);
      return std::nullopt;
    }
    auto verified = storage::verify_checkpoint(candidate.directory);
    if (verified && verified->layout != context_.host->program().layout) {
      verified = fail(error_code::invalid_argument,
                      "its tensors are not those of the scenario's model and optimizer");
    }
    if (verified) return rung{rung::kind::checkpoint, iteration, candidate.directory.string()};
    set_aside(catalog, candidate, verified.error().describe());
    return std::nullopt;
  }

  void set_aside(storage::catalog& catalog, const storage::catalog_checkpoint& bad,
                 const std::string& why) {
    const auto& manifest = bad.manifest;
    if (auto marked = catalog.set_state(manifest.iteration, manifest.branch,
                                        storage::checkpoint_state::quarantined, why);
        !marked) {
      context_.record(event::kind::warning, "catalog", marked.error().describe());
    }
    context_.record(event::kind::checkpoint_quarantined,
                    "checkpoint:" + std::to_string(manifest.iteration.value()), why, std::nullopt,
                    manifest.iteration);
  }

  const run_context& context_;
  recovery::find_source what_;
  std::optional<memory_search> memory_;
};

}  // namespace

void post_find_source(const run_context& context, const recovery::find_source& what) {
  const auto name =
      "search for a state after generation " + std::to_string(what.generation.value());
  context.searcher->post(name, [&context, what] {
    const auto one = std::make_shared<search>(context, what);
    if (auto found = one->in_memory()) {
      one->forget_memory();
      // Before the answer: it opens a branch, which leaves these behind.
      context.storage->post([one](storage::catalog& catalog) { one->set_aside_disputed(catalog); });
      return context.post<run_supervisor_actor>(
          recovery::source_found{what.generation, std::move(found)});
    }
    context.storage->post([&context, one, generation = what.generation](storage::catalog& catalog) {
      context.post<run_supervisor_actor>(
          recovery::source_found{generation, one->anywhere(catalog)});
    });
  });
}

}  // namespace ftrt::actors
