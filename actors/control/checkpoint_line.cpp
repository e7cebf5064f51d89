#include <actors/control/checkpoint_line.hpp>
#include <string>
#include <tuple>
#include <utility>

namespace ftrt::actors {
namespace {

// By generation first: after a rollback iterations go back.
bool is_older(const snapshot_set& a, const snapshot_set& b) {
  return std::tie(a.generation, a.iteration) < std::tie(b.generation, b.iteration);
}

bool is_same_state(const snapshot_set& a, const snapshot_set& b) {
  return a.branch == b.branch && a.iteration == b.iteration;
}

dropped_set drop(snapshot_set set, const snapshot_set& newer) {
  return {std::move(set),
          {error_code::aborted,
           "the disk had no time for it before that of iteration " +
               std::to_string(newer.iteration.value()) + " was complete",
           ""},
          true};
}

}  // namespace

checkpoint_line::decision checkpoint_line::offer(snapshot_set set) {
  decision made;
  if (waiting_ && is_older(set, *waiting_)) {
    made.dropped.push_back(drop(std::move(set), *waiting_));
  } else {
    auto before = std::exchange(waiting_, std::move(set));
    if (before && !is_same_state(*before, *waiting_)) {
      made.dropped.push_back(drop(std::move(*before), *waiting_));
    }
  }
  serve(made, false);
  return made;
}

checkpoint_line::decision checkpoint_line::retry() {
  decision made;
  serve(made, true);
  return made;
}

void checkpoint_line::serve(decision& made, bool waited) {
  if (!waiting_) return;
  auto held = hold_(*waiting_);
  if (!held && held.error().code == error_code::busy) return;
  auto set = std::move(*waiting_);
  waiting_.reset();
  if (held) {
    made.held = std::move(*held);
  } else {
    made.dropped.push_back({std::move(set), std::move(held.error()), waited});
  }
}

}  // namespace ftrt::actors
