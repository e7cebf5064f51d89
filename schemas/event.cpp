#include <array>
#include <ftrt/event.hpp>
#include <utility>

namespace ftrt {
namespace {

using entry = std::pair<event::kind, std::string_view>;
constexpr std::array kinds{
    entry{event::kind::run_started, "run_started"},
    entry{event::kind::run_finished, "run_finished"},
    entry{event::kind::worker_started, "worker_started"},
    entry{event::kind::worker_lost, "worker_lost"},
    entry{event::kind::generation_began, "generation_began"},
    entry{event::kind::rollback, "rollback"},
    entry{event::kind::state_diverged, "state_diverged"},
    entry{event::kind::not_finite, "not_finite"},
    entry{event::kind::recovered, "recovered"},
    entry{event::kind::straggler, "straggler"},
    entry{event::kind::checkpoint_committed, "checkpoint_committed"},
    entry{event::kind::checkpoint_failed, "checkpoint_failed"},
    entry{event::kind::checkpoint_dropped, "checkpoint_dropped"},
    entry{event::kind::checkpoint_quarantined, "checkpoint_quarantined"},
    entry{event::kind::actor_restarted, "actor_restarted"},
    entry{event::kind::evaluated, "evaluated"},
    entry{event::kind::chaos, "chaos"},
    entry{event::kind::stop_requested, "stop_requested"},
    entry{event::kind::message_refused, "message_refused"},
    entry{event::kind::warning, "warning"},
    entry{event::kind::batch_poisoned, "batch_poisoned"},
    entry{event::kind::batch_skipped, "batch_skipped"},
};

}  // namespace

std::string_view to_string(event::kind kind) {
  for (const auto& [value, name] : kinds) {
    if (value == kind) return name;
  }
  return "unknown";
}

bool parse_event_kind(std::string_view text, event::kind& kind) {
  for (const auto& [value, name] : kinds) {
    if (name == text) {
      kind = value;
      return true;
    }
  }
  return false;
}

}  // namespace ftrt
