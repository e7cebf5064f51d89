#include <actors/control/snapshot_sets.hpp>
#include <actors/control/source_search.hpp>
#include <algorithm>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <storage/finite.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

using recovery::rung;

std::string name_of(rung::kind from, iteration_id iteration) {
  const std::string kind = from == rung::kind::snapshot ? "snapshot:" : "checkpoint:";
  return kind + std::to_string(iteration.value());
}

// One search; lives on the storage thread.
class search {
 public:
  search(const run_context& context, storage::catalog& catalog, const recovery::find_source& what)
      : context_(context), catalog_(catalog), what_(what) {}

  std::optional<rung> newest() {
    look_into_memory();
    auto usable = catalog_.usable_checkpoints();
    if (!usable) context_.record(event::kind::warning, "catalog", usable.error().describe());
    if (usable) {
      for (const auto& candidate : *usable) {
        if (auto found = snapshot_from(candidate.manifest.iteration)) return found;
        if (auto found = checkpoint(candidate)) return found;
      }
    }
    return snapshot_from(iteration_id{});
  }

 private:
  void look_into_memory() {
    if (!what_.memory || !context_.values.checkpoint.restore_from_memory) return;
    const auto now = context_.board->current();
    sets_ = complete_sets(context_.host->workers(), layout(), context_.values.cluster.ranks,
                          now.branch, now.branch_since);
    shelved_ = context_.host->shelf().get();
  }

  // Why a state is none to come back to, whatever its digest says; empty: nothing is held against
  // it.
  [[nodiscard]] std::string refusal(rung::kind from, iteration_id iteration) const {
    const bool failed = std::ranges::any_of(what_.quarantined, [&](const rung& bad) {
      return bad.from == from && bad.iteration == iteration;
    });
    if (failed) return "its state did not load";
    if (!what_.not_beyond || iteration <= *what_.not_beyond) return {};
    return "its state is past iteration " + std::to_string(what_.not_beyond->value()) +
           ", where the ranks last agreed";
  }

  [[nodiscard]] const state_layout& layout() const { return context_.host->program().layout; }

  // C35. The storage thread looks for the same before it writes a checkpoint.
  [[nodiscard]] std::string not_finite(const storage::shared_memory& memory) const {
    const auto all = part_of(layout(), 0, 1);
    const auto bytes = memory.bytes().subspan(all.begin_bytes, all.end_bytes - all.begin_bytes);
    const auto bad = storage::first_not_finite(layout(), all, bytes);
    return bad ? *bad + " is not finite: it is no state to come back to" : std::string{};
  }

  // The newest good snapshot of iteration `least` or later.
  std::optional<rung> snapshot_from(iteration_id least) {
    while (!sets_.empty() && sets_.front().iteration >= least) {
      // What the branch began from may be newer than anything that was written since.
      if (shelved_ && shelved_->iteration > sets_.front().iteration) break;
      const auto set = std::move(sets_.front());
      sets_.erase(sets_.begin());
      if (assembled(set)) return rung{rung::kind::snapshot, set.iteration, {}};
    }
    const auto shelved = std::exchange(shelved_, nullptr);
    if (!shelved) return std::nullopt;
    if (shelved->iteration < least) {
      shelved_ = shelved;
      return std::nullopt;
    }
    if (still_good(*shelved)) return rung{rung::kind::snapshot, shelved->iteration, {}};
    context_.host->shelf().clear();
    return snapshot_from(least);
  }

  bool assembled(const snapshot_set& set) {
    if (const auto why = refusal(rung::kind::snapshot, set.iteration); !why.empty()) {
      set_aside(set.iteration, why);
      return false;
    }
    auto memory = assemble(layout(), set);
    if (const auto why = memory ? not_finite(*memory) : memory.error().describe(); !why.empty()) {
      set_aside(set.iteration, why);
      return false;
    }
    auto digest = storage::digest_of(memory->bytes());
    context_.host->shelf().put({set.iteration, std::move(*memory), std::move(digest)});
    return true;
  }

  bool still_good(const host::shelved_state& shelved) {
    auto why = refusal(rung::kind::snapshot, shelved.iteration);
    if (storage::digest_of(shelved.memory.bytes()) != shelved.digest) why = "its digest differs";
    if (!why.empty()) set_aside(shelved.iteration, why);
    return why.empty();
  }

  void set_aside(iteration_id iteration, const std::string& why) {
    context_.record(event::kind::checkpoint_quarantined, name_of(rung::kind::snapshot, iteration),
                    why, std::nullopt, iteration);
  }

  std::optional<rung> checkpoint(const storage::catalog_checkpoint& candidate) {
    const auto iteration = candidate.manifest.iteration;
    if (const auto why = refusal(rung::kind::checkpoint, iteration); !why.empty()) {
      set_aside(candidate, why);
      return std::nullopt;
    }
    auto verified = storage::verify_checkpoint(candidate.directory);
    if (verified && verified->layout != layout()) {
      verified = fail(error_code::invalid_argument,
                      "its tensors are not those of the scenario's model and optimizer");
    }
    if (verified) return rung{rung::kind::checkpoint, iteration, candidate.directory.string()};
    set_aside(candidate, verified.error().describe());
    return std::nullopt;
  }

  void set_aside(const storage::catalog_checkpoint& bad, const std::string& why) {
    const auto& manifest = bad.manifest;
    if (auto marked = catalog_.set_state(manifest.iteration, manifest.branch,
                                         storage::checkpoint_state::quarantined, why);
        !marked) {
      context_.record(event::kind::warning, "catalog", marked.error().describe());
    }
    context_.record(event::kind::checkpoint_quarantined,
                    name_of(rung::kind::checkpoint, manifest.iteration), why, std::nullopt,
                    manifest.iteration);
  }

  const run_context& context_;
  storage::catalog& catalog_;
  const recovery::find_source& what_;
  std::vector<snapshot_set> sets_;  // newest first
  std::shared_ptr<const host::shelved_state> shelved_;
};

}  // namespace

void post_find_source(const run_context& context, const recovery::find_source& what) {
  context.storage->post([&context, what](storage::catalog& catalog) {
    context.post<run_supervisor_actor>(
        recovery::source_found{what.generation, search{context, catalog, what}.newest()});
  });
}

}  // namespace ftrt::actors
