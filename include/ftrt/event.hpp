#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ftrt {

// Something a person may want to know about a run: what died, when, why, what was done.
struct event {
  enum class kind : std::uint8_t {
    run_started,
    run_finished,
    worker_started,
    worker_lost,
    generation_began,
    rollback,
    state_diverged,
    not_finite,
    recovered,
    straggler,  // a rank computes much slower than the others, or does no longer
    checkpoint_committed,
    checkpoint_failed,
    checkpoint_dropped,  // a newer one was better, or its history became void
    checkpoint_quarantined,
    actor_restarted,
    evaluated,
    chaos,
    stop_requested,
    message_refused,
    warning,
    batch_poisoned,  // a batch killed its rank again and again: the run ends
    batch_skipped,   // ... and is left out by all ranks from now on
  };

  kind what = kind::warning;
  std::int64_t wall_time_ms = 0;  // Unix time, for people only
  std::uint64_t generation = 0;
  std::uint64_t iteration = 0;
  std::int64_t rank = -1;  // -1: none in particular
  std::string subject;     // "trainer:1", "checkpoint:400", "run_supervisor"
  std::string text;        // one line for people, no newline
};

[[nodiscard]] std::string_view to_string(event::kind kind);
[[nodiscard]] bool parse_event_kind(std::string_view text, event::kind& kind);

}  // namespace ftrt
