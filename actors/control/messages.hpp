#pragma once

#include <actors/control/mailbox_credit.hpp>
#include <actors/recovery/events.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <ftrt/types.hpp>
#include <schemas/protocol/messages.hpp>
#include <string>

// What actors say to each other. All of them live in one process, so messages are plain structs
// that never cross a wire; what crosses one is schemas/protocol.
namespace ftrt::actors {

// A rank's worker said this.
struct worker_message {
  rank_id rank;
  incarnation_id incarnation;
  protocol::message message;
  mailbox_credit::ticket ticket = {};  // until it is dealt with
};
// Say this to your worker.
struct tell_worker {
  protocol::message message;
};
// The host table's news.
struct worker_started {
  rank_id rank;
  incarnation_id incarnation;
};
struct worker_start_failed {
  rank_id rank;
  incarnation_id incarnation;
  std::string text;
};
// The process is known dead.
struct worker_exited {
  rank_id rank;
  incarnation_id incarnation;
};
// The checkpoint of this iteration must become durable now or never.
struct await_checkpoint {
  iteration_id iteration;
};
// A checkpoint job ended.
struct checkpoint_settled {
  branch_id branch;
  iteration_id iteration;
  bool committed = false;
  std::string text;  // why not
};
// Internal alarms.
struct tick {};
struct read_on {};
struct chaos_tick {};
struct deadline_alarm {
  std::uint64_t token = 0;
};
// A dead actor's wait is over (host_supervisor to itself); `child` indexes its table of the dead.
struct restart_due {
  std::uint64_t child = 0;
};
struct backoff_over {
  recovery::spawn_worker what;
};
// The run is to stop, or a stop was asked for before.
struct stop_run {
  std::string reason;
};
// What the run came to (run_supervisor to host_supervisor).
struct run_ended {
  recovery::end_run how;
};

}  // namespace ftrt::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::read_on)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::worker_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::tell_worker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::worker_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::worker_start_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::worker_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::await_checkpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::checkpoint_settled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::chaos_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::deadline_alarm)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::restart_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::backoff_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::stop_run)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::actors::run_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ftrt::recovery::source_found)
