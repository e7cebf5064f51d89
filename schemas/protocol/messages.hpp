#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <schemas/state_layout.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The messages between control (ftrt) and its worker processes, as plain structs. protocol.capnp is
// the wire format and says who owes whom what; encode() and decode() translate.
//
// Three channels, all socketpairs, none listening:
//   zygote channel  SOCK_SEQPACKET, one message a packet, descriptors beside it
//   lifeline        SOCK_SEQPACKET, control -> worker, for messages that carry descriptors; a spare
//                   and control use it in both directions
//   control socket  SOCK_STREAM, frames of a 4-byte little-endian length and a message
namespace ftrt::protocol {

inline constexpr std::uint16_t protocol_version = 1;
// Windows of data that a run may leave out.
inline constexpr std::size_t max_left_out = 1024;
// State memories that a spare maps ahead of need.
inline constexpr std::uint32_t max_sources = 2;

// ---- control -> zygote -------------------------------------------------------------------------

// First message: what to load and warm up. Answered by zygote_ready or zygote_refused.
struct zygote_configure {
  std::string scenario_toml;
  bool check_only = false;  // answer, then exit
};

// Fork one worker. Descriptors, in this order: control socket, lifeline, progress memory, snapshot
// memory, bucket memory, state memory, standard error. Answered by worker_forked or fork_failed.
struct fork_worker {
  rank_id rank;
  incarnation_id incarnation;
  std::uint32_t spare = 0;  // not 0: a spare of this number, without rank and incarnation
};

// ---- zygote -> control -------------------------------------------------------------------------

struct zygote_ready {
  state_layout layout;
  std::uint64_t bucket_bytes = 0;      // size of one rank's bucket memory
  std::uint64_t sync_block_bytes = 0;  // size of a generation's sync block
  std::uint64_t train_samples = 0;     // after data.limit
  std::uint64_t test_samples = 0;
  std::uint64_t iterations_per_epoch = 0;
  std::uint64_t total_iterations = 0;
  // How often ranks should digest their state, so that it costs under 1 % of a step; 0: never.
  std::uint64_t digest_every = 0;
};

// The model or the data cannot be used; nothing was started.
struct zygote_refused {
  std::vector<diagnostic> diagnostics;
};

// One descriptor beside it: the pidfd.
struct worker_forked {
  rank_id rank;
  incarnation_id incarnation;
  std::int32_t pid = 0;
  std::uint32_t spare = 0;  // as it was ordered, here and below
};

struct fork_failed {
  rank_id rank;
  incarnation_id incarnation;
  std::string text;
  std::uint32_t spare = 0;
};

// A child was reaped; `wait_status` as waitpid() gives it.
struct worker_exited {
  rank_id rank;
  incarnation_id incarnation;
  std::int32_t pid = 0;
  std::int32_t wait_status = 0;
  std::uint32_t spare = 0;
};

// ---- control -> worker, on the lifeline
// ----------------------------------------------------------

// One descriptor: a fresh control socket that replaces the one before. Answered by hello on it.
struct attach_control {};

enum class state_role : std::uint8_t {
  keep = 0,         // a survivor: its state is right as it is
  apply_prepared,   // a survivor: apply prepared iteration `iteration` with the decided word first
  receive,          // stateless: copy the state of rank `source`
  load_checkpoint,  // stateless: read `checkpoint_directory`
  initial,          // stateless: the initial weights of the seed
  load_snapshot,    // stateless: copy the state that control put together from snapshots
};

// Become rank `rank` of generation `generation`. Descriptors: the sync block, then the bucket
// memory of every rank in rank order, then, for receive, the state memory of `source`, or for
// load_snapshot the memory with the whole state.
// Answered by joined or join_failed.
struct join {
  generation_id generation;
  branch_id branch;
  rank_id rank;
  std::uint32_t world_size = 0;
  state_role role = state_role::keep;
  iteration_id iteration;            // where training will stand once all have joined
  rank_id source;                    // receive
  std::string checkpoint_directory;  // load_checkpoint; absolute
  std::uint64_t digest_every = 0;    // iterations from one digest record to the next; 0: none
  // Windows after `iteration` that all ranks leave out: committed without being computed and
  // without an optimizer step. Ascending, at most max_left_out.
  std::vector<iteration_id> left_out = {};
};

// ---- control -> worker, on the control socket
// ----------------------------------------------------

// All ranks of the generation joined with one digest: train on.
struct train {
  generation_id generation;
};

// Abort the communicator of this generation and every older one, then answer with parked.
struct revoke {
  generation_id generation;
};

// Set the stop bit in the next decision word. Idempotent.
struct request_stop {};

// Who are you? Answered by hello.
struct query {};

// Leave with exit code 0.
struct exit_worker {};

enum class injury_kind : std::uint8_t { nan = 0, flip_bit, slow, kill, stop };
enum class injury_target : std::uint8_t { gradient = 0, parameter };
// Where kill and stop strike; chaos_phase of include/ftrt/scenario.hpp says what each means.
enum class injury_phase : std::uint8_t {
  none = 0,  // the other kinds know their moment
  all_reduce,
  optimizer,
  snapshot,
  join,
  evaluate,
  start,
  stop,
};

// Chaos: do this to yourself at this iteration, or at the first one after it that can have it: one
// of your numbers goes wrong, you pause before each micro-batch, or SIGKILL or SIGSTOP meets you in
// a phase. Which number (and which bit) is a function of seed and iteration. Said twice with one
// number, it happens once; a worker puts the number on its progress page before it obeys.
struct injure {
  injury_kind kind = injury_kind::nan;
  injury_target target = injury_target::gradient;
  iteration_id iteration = {};
  std::uint64_t seed = 0;
  std::uint64_t number = 0;                 // of this order in its run; 0: none
  injury_phase phase = injury_phase::none;  // kill, stop
  std::uint64_t delay_ns = 0;               // slow
  std::uint64_t iterations = 0;             // slow; 0: as long as the worker lives
};

// ---- worker -> control
// ---------------------------------------------------------------------------

enum class worker_phase : std::uint8_t {
  starting = 0,  // has no state yet
  joining,
  joined,  // waits for train
  training,
  parked,
  finished,  // all iterations are done (or stopped), the final snapshot is taken
};

// First message on every control socket, and the answer to query.
struct hello {
  std::uint16_t version = protocol_version;
  rank_id rank;
  incarnation_id incarnation;
  std::int32_t pid = 0;
  generation_id generation;  // 0: never joined
  iteration_id committed;
  worker_phase phase = worker_phase::starting;
  bool has_state = false;
};

// Out of the collective, state intact, generation revoked.
struct parked {
  generation_id generation;  // the revoked one
  iteration_id committed;
  iteration_id prepared;  // > committed: reduced gradients of this iteration are held; else 0
  bool decided = false;   // this rank saw the decision word of `prepared`
  bool has_state = false;
};

struct joined {
  generation_id generation;
  iteration_id iteration;
  std::string state_digest;    // xxh3-128 of the state arena, 32 hex digits
  std::uint64_t state_ns = 0;  // what copying or loading it took; 0 where it kept its own
};

struct join_failed {
  generation_id generation;
  error_code code = error_code::internal;
  std::string text;
};

// The communicator saw these ranks' threads die.
struct peer_lost {
  generation_id generation;
  std::vector<rank_id> lost;
};

// A snapshot slot of this rank is complete; read it from the snapshot memory.
struct snapshot_ready {
  generation_id generation;
  branch_id branch;
  iteration_id iteration;
  std::uint32_t slot = 0;
  std::uint32_t part = 0;   // this rank's part ...
  std::uint32_t parts = 0;  // ... of so many
  bool final = false;       // the one that the end of the run waits for
};

struct finished {
  generation_id generation;
  iteration_id iteration;
  std::uint64_t optimizer_steps = 0;
  bool stopped = false;        // by request_stop, before the last iteration
  std::string weights_digest;  // over parameters and buffers, 32 hex digits
  double train_loss = 0;       // mean of the last iteration
  double test_accuracy = 0;    // NaN: never evaluated
};

// The user's model or data threw. Not a crash: this rank still stands.
struct program_failed {
  generation_id generation;
  iteration_id iteration;
  std::string text;
};

// The loss or a gradient of `iteration` is not finite, and train.on_non_finite is not "skip": all
// ranks left the iteration as it was and wait for what control decides.
struct not_finite {
  generation_id generation;
  iteration_id iteration;
  std::vector<rank_id> ranks;  // whose own share it was
};

// ---- spares, on the lifeline
// ---------------------------------------------------------------------

// A spare -> control, once: warm, and waiting for an identity.
struct spare_ready {};

// Control -> a waiting spare, any number of times: these are the state memories that it may have to
// copy from, of `count` ranks, so that it maps them and touches their pages while nobody waits for
// it. `count` descriptors. Replaces what was said before. No answer.
struct expect_sources {
  std::uint32_t count = 0;  // 1 .. max_sources
};

// Control -> a spare, once: be this incarnation of this rank. Answered by hello.
struct assign {
  rank_id rank;
  incarnation_id incarnation;
};

// --------------------------------------------------------------------------------------------------

using message =
    std::variant<zygote_configure, fork_worker, zygote_ready, zygote_refused, worker_forked,
                 fork_failed, worker_exited, attach_control, join, train, revoke, request_stop,
                 query, exit_worker, hello, parked, joined, join_failed, peer_lost, snapshot_ready,
                 finished, program_failed, spare_ready, assign, injure, not_finite, expect_sources>;

// Largest encoded message of any type, and so the bound of a frame's length field.
inline constexpr std::size_t max_message_bytes = 8u << 20;

// The encoding without a frame. Fails with invalid_argument where a field is beyond its limit.
[[nodiscard]] result<std::vector<std::byte>> encode(const message& m);

// Never trusts `bytes`: any input gives a message or an error (corrupt: malformed; unsupported:
// other protocol version or unknown type; refused: larger than this type may be).
// Every call has traversal and size limits of its own, so a connection can carry any number.
[[nodiscard]] result<message> decode(std::span<const std::byte> bytes);

// "joined", "snapshot_ready", ...
[[nodiscard]] std::string_view name_of(const message& m);

// 4-byte little-endian length, then the bytes: the control socket's frame.
[[nodiscard]] result<std::vector<std::byte>> encode_frame(const message& m);

// Reads a frame's length field; `corrupt` where it is 0 or beyond max_message_bytes.
inline constexpr std::size_t frame_header_bytes = 4;
[[nodiscard]] result<std::size_t> decode_frame_length(std::span<const std::byte> header);

// Cuts a byte stream into messages. One reader a socket, on the thread that reads it. Holds one
// incomplete frame and what the last feed() brought, so drain it with next() after each feed.
//
//   frame_reader reader;
//   reader.feed(bytes);
//   while (auto m = reader.next()) { if (!*m) ...error, the stream is unusable... }
//
// Loop over an error by leaving: it is final, and next() gives it again for ever.
class frame_reader {
 public:
  void feed(std::span<const std::byte> bytes);
  // Empty: needs more bytes. An error is final.
  [[nodiscard]] std::optional<result<message>> next();

 private:
  result<message> fail_for_good(error why);

  std::vector<std::byte> pending_;
  std::size_t begin_ = 0;
  std::optional<error> failed_;
};

}  // namespace ftrt::protocol
