#include <actors/control/memory_search.hpp>
#include <algorithm>
#include <storage/digest.hpp>
#include <storage/finite.hpp>
#include <utility>

namespace ftrt::actors {

using recovery::rung;

std::string refusal(const recovery::find_source& what, rung::kind from, iteration_id iteration) {
  const bool failed = std::ranges::any_of(what.quarantined, [&](const rung& bad) {
    return bad.from == from && bad.iteration == iteration;
  });
  if (failed) return "its state did not load";
  if (!what.not_beyond || iteration <= *what.not_beyond) return {};
  return "its state is past iteration " + std::to_string(what.not_beyond->value()) +
         ", where the ranks last agreed";
}

memory_search::memory_search(const run_context& context, const recovery::find_source& what)
    : context_(context), what_(what) {
  if (!what.memory || !context.values.checkpoint.restore_from_memory) return;
  const auto now = context.board->current();
  sets_ = complete_sets(context.host->workers(), layout(), context.values.cluster.ranks, now.branch,
                        now.branch_since);
  shelved_ = context.host->shelf().all();
}

const state_layout& memory_search::layout() const {
  return context_.host->program().layout;
}

// C35. The storage thread looks for the same before it writes a checkpoint.
std::string memory_search::not_finite(const storage::shared_memory& memory) const {
  const auto all = part_of(layout(), 0, 1);
  const auto bytes = memory.bytes().subspan(all.begin_bytes, all.end_bytes - all.begin_bytes);
  const auto bad = storage::first_not_finite(layout(), all, bytes);
  return bad ? *bad + " is not finite: it is no state to come back to" : std::string{};
}

std::optional<rung> memory_search::newest(iteration_id least) {
  while (is_wanted()) {
    // What the branch began from may be newer than anything that was written since.
    const bool from_shelf = !shelved_.empty() && (sets_.empty() || shelved_.front()->iteration >=
                                                                       sets_.front().iteration);
    if (!from_shelf && sets_.empty()) break;
    const auto iteration = from_shelf ? shelved_.front()->iteration : sets_.front().iteration;
    if (iteration < least) break;
    const bool lies_ready = from_shelf ? take_from_shelf() : take_set();
    if (lies_ready) return rung{rung::kind::snapshot, iteration, {}};
  }
  return std::nullopt;
}

bool memory_search::is_wanted() const {
  return !context_.searcher->is_finishing() && !context_.host->shelf().is_stale(what_.generation);
}

bool memory_search::take_set() {
  const auto set = std::move(sets_.front());
  sets_.erase(sets_.begin());
  return assembled(set);
}

bool memory_search::take_from_shelf() {
  const auto shelved = std::move(shelved_.front());
  shelved_.erase(shelved_.begin());
  auto& shelf = context_.host->shelf();
  if (still_good(*shelved)) return shelf.offer(what_.generation, shelved);
  shelf.discard(what_.generation, shelved);
  return false;
}

bool memory_search::assembled(const snapshot_set& set) {
  if (const auto why = refusal(what_, rung::kind::snapshot, set.iteration); !why.empty()) {
    set_aside(set.iteration, why);
    return false;
  }
  auto memory = assemble(layout(), set);
  if (const auto why = memory ? not_finite(*memory) : memory.error().describe(); !why.empty()) {
    set_aside(set.iteration, why);
    return false;
  }
  auto digest = storage::digest_of(memory->bytes());
  return context_.host->shelf().offer(
      what_.generation, std::make_shared<const host::shelved_state>(host::shelved_state{
                            set.iteration, std::move(*memory), std::move(digest)}));
}

bool memory_search::still_good(const host::shelved_state& shelved) {
  auto why = refusal(what_, rung::kind::snapshot, shelved.iteration);
  if (storage::digest_of(shelved.memory.bytes()) != shelved.digest) why = "its digest differs";
  if (!why.empty()) set_aside(shelved.iteration, why);
  return why.empty();
}

void memory_search::set_aside(iteration_id iteration, const std::string& why) {
  context_.record(event::kind::checkpoint_quarantined,
                  "snapshot:" + std::to_string(iteration.value()), why, std::nullopt, iteration);
}

}  // namespace ftrt::actors
