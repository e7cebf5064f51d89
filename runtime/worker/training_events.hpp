#pragma once

#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <schemas/protocol/messages.hpp>
#include <storage/shared_memory.hpp>
#include <string>
#include <variant>
#include <vector>

// What the threads of a worker say to each other.
namespace ftrt::worker {

// ---- control thread -> training thread
// -----------------------------------------------------------

struct join_command {
  protocol::join request;
  storage::shared_memory sync_block;
  std::vector<storage::shared_memory> buckets;  // in rank order
  // Roles receive and load_snapshot: read-only, may be touched ahead; else nullptr. The training
  // thread is never the last to hold one that was touched.
  std::shared_ptr<const storage::shared_memory> source_state;
};
struct train_command {
  generation_id generation;
};
// The communicator has been aborted: report where this rank stands.
struct park_command {
  generation_id generation;
};
using training_command = std::variant<join_command, train_command, park_command>;

// ---- training thread -> control thread
// -----------------------------------------------------------

// The step loop left the generation before anybody revoked it, or a join did.
struct interrupted {
  generation_id generation;
  error why;
  std::vector<rank_id> lost;  // whose deaths the communicator saw
};
// Peers died while this rank computed, which it still does. Not from the training thread, but from
// the communicator's watch.
struct peers_died {
  generation_id generation;
  std::vector<rank_id> lost;
};
// A command that does not fit (any more).
struct command_refused {
  std::string text;
};
// Trainer and communicator are destroyed; the thread is about to end. The last event.
struct thread_ended {};

using training_event =
    std::variant<protocol::joined, protocol::join_failed, protocol::parked,
                 protocol::snapshot_ready, protocol::finished, protocol::program_failed,
                 protocol::not_finite, interrupted, peers_died, command_refused, thread_ended>;

}  // namespace ftrt::worker
