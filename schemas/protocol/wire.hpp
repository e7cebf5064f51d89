#pragma once

#include <cstddef>
#include <schemas/protocol/messages.hpp>
#include <type_traits>
#include <variant>

// Inside of the protocol room only: what encode.cpp and decode.cpp share.

// Every message as X(struct, name in the schema, name of its union tag), in the variant's order.
#define FTRT_PROTOCOL_MESSAGES(X)                        \
  X(zygote_configure, ZygoteConfigure, ZYGOTE_CONFIGURE) \
  X(fork_worker, ForkWorker, FORK_WORKER)                \
  X(zygote_ready, ZygoteReady, ZYGOTE_READY)             \
  X(zygote_refused, ZygoteRefused, ZYGOTE_REFUSED)       \
  X(worker_forked, WorkerForked, WORKER_FORKED)          \
  X(fork_failed, ForkFailed, FORK_FAILED)                \
  X(worker_exited, WorkerExited, WORKER_EXITED)          \
  X(attach_control, AttachControl, ATTACH_CONTROL)       \
  X(join, Join, JOIN)                                    \
  X(train, Train, TRAIN)                                 \
  X(revoke, Revoke, REVOKE)                              \
  X(request_stop, RequestStop, REQUEST_STOP)             \
  X(query, Query, QUERY)                                 \
  X(exit_worker, ExitWorker, EXIT_WORKER)                \
  X(hello, Hello, HELLO)                                 \
  X(parked, Parked, PARKED)                              \
  X(joined, Joined, JOINED)                              \
  X(join_failed, JoinFailed, JOIN_FAILED)                \
  X(peer_lost, PeerLost, PEER_LOST)                      \
  X(snapshot_ready, SnapshotReady, SNAPSHOT_READY)       \
  X(finished, Finished, FINISHED)                        \
  X(program_failed, ProgramFailed, PROGRAM_FAILED)       \
  X(spare_ready, SpareReady, SPARE_READY)                \
  X(assign, Assign, ASSIGN)                              \
  X(injure, Injure, INJURE)                              \
  X(not_finite, NotFinite, NOT_FINITE)                   \
  X(expect_sources, ExpectSources, EXPECT_SOURCES)

namespace ftrt::protocol {

// Places of a struct in the variant; the union's tags have the same numbers (encode.cpp asserts).
namespace detail {
template <class T, class Variant>
struct place;
template <class T, class... Ts>
struct place<T, std::variant<Ts...>> {
  static constexpr std::size_t value = [] {
    std::size_t at = 0;
    const bool found = ((std::is_same_v<T, Ts> || (++at, false)) || ...);
    return found ? at : std::variant_npos;
  }();
};
}  // namespace detail

template <class T>
inline constexpr std::size_t index_of = detail::place<T, message>::value;

}  // namespace ftrt::protocol
