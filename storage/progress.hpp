#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <storage/digest.hpp>
#include <storage/shared_memory.hpp>
#include <vector>

namespace ftrt::storage {

// Where a training thread is. The order is that of an iteration.
enum class train_phase : std::uint32_t {
  starting = 0,
  parked,
  joining,
  compute,  // forward and backward
  all_reduce,
  decision,
  applying,  // a rank that dies here is not a survivor
  snapshot,
  evaluating,
  finished,
};

[[nodiscard]] const char* to_string(train_phase phase);

// The latest word of a training thread, as of one read.
struct progress_view {
  train_phase phase = train_phase::starting;
  generation_id generation;
  iteration_id iteration;  // the one at work
  iteration_id committed;
  std::uint64_t micro_batch = 0;
  // Of the generation's collectives: how many are done, which one was begun last (their numbers are
  // the same on all ranks, from 1), and how many bytes that one reduces or exchanges.
  std::uint64_t collective_sequence = 0;
  std::uint64_t collective_begun = 0;
  std::uint64_t collective_bytes = 0;
  std::int64_t progress_ns = 0;  // CLOCK_MONOTONIC of the last change of any field
  bool applying = false;         // state is between two iterations
  // CLOCK_MONOTONIC of the last time that it looked for a peer in vain and went to sleep again.
  // That is no progress, but it shows a training thread that lives and waits for somebody else.
  std::int64_t waiting_ns = 0;
  // The kernel's number of the thread, as gettid() gives it to the worker; 0: not told.
  std::uint64_t thread = 0;
};

enum class record_kind : std::uint32_t { iteration = 1, evaluation = 2, digest = 3 };

// One line of a rank's diary: an iteration that was committed, an evaluation that was made, or the
// digest of a committed state (its generation, its iteration, in step_ns how long it took, and what
// digest_in() reads). Times are of this rank; loss, grad_norm and accuracy are those of the whole
// group.
struct progress_record {
  record_kind kind = record_kind::iteration;
  std::uint32_t skipped = 0;  // iteration: 1 where the scaler skipped the optimizer step
  std::uint64_t generation = 0;
  std::uint64_t iteration = 0;
  std::uint64_t optimizer_step = 0;
  double loss = 0;                // mean over the window's (or the test set's) samples
  double grad_norm = 0;           // before clipping; iteration only
  double lr = 0;                  // iteration only
  double loss_scale = 0;          // iteration only
  double accuracy = 0;            // evaluation only, in [0, 1]; see reduced_bytes_in()
  std::uint64_t samples = 0;      // of the whole window (or test set)
  std::int64_t compute_ns = 0;    // forward and backward, without what collectives took in them
  std::int64_t reduce_ns = 0;     // in collectives, waiting included
  std::int64_t step_ns = 0;       // the whole iteration
  std::int64_t committed_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t collective_sequence = 0;  // collectives of its generation that were done by then
};

// A digest record: the ranks of a generation hold the same state after the same iteration, or one
// of them computes wrongly.
[[nodiscard]] progress_record digest_record(generation_id generation, iteration_id iteration,
                                            const digest128& digest, std::int64_t took_ns = 0);
// What a record of that kind says.
[[nodiscard]] digest128 digest_in(const progress_record& record);

// An iteration record: the bytes that its collectives reduced or exchanged, of this rank's. They
// stand where an evaluation has its accuracy, since a record is full.
void set_reduced_bytes(progress_record& record, std::uint64_t bytes);
[[nodiscard]] std::uint64_t reduced_bytes_in(const progress_record& record);

inline constexpr std::size_t injuries_kept = 32;

// The progress memory of one incarnation: a page of words and a ring of records. The worker's
// training thread writes, control reads; both outlive the worker.
inline constexpr std::size_t progress_ring_records = 8192;
[[nodiscard]] std::size_t progress_memory_bytes();

// The writing end, of the thread that makes it: its number is what the page tells. No call blocks,
// and none after the first makes a system call other than the clock's.
class progress_writer {
 public:
  // Formats the memory. `memory` must outlive the writer and have progress_memory_bytes().
  explicit progress_writer(const shared_memory& memory);

  void set_phase(train_phase phase);
  void set_generation(generation_id generation);
  void begin_iteration(iteration_id iteration);
  void set_micro_batch(std::uint64_t micro_batch);
  void set_collective_sequence(std::uint64_t sequence);
  // This rank is about to contribute to collective `number` of its generation.
  void begin_collective(std::uint64_t number, std::uint64_t bytes);
  // Still waiting for a peer; said again and again while it lasts.
  void wait_on();
  // Between begin_apply and commit the state is torn; commit publishes `committed = iteration`.
  void begin_apply();
  void commit(iteration_id iteration);
  // State was replaced as a whole (join): committed moves there, forwards or backwards.
  void reset_committed(iteration_id iteration);
  void append(const progress_record& record);
  // The order of chaos with this number is about to be obeyed.
  void note_injury(std::uint64_t number);

 private:
  std::byte* base_;
};

// The reading end, on memory that a hostile writer may scribble into at any moment: every value is
// copied before use, no index is taken from it, a torn record is skipped. One thread.
class progress_reader {
 public:
  explicit progress_reader(const shared_memory& memory);

  [[nodiscard]] progress_view view() const;
  // Numbers of the last orders of chaos that were obeyed, at most injuries_kept of them.
  [[nodiscard]] std::vector<std::uint64_t> injuries() const;
  // The next record after the last one returned; empty: none yet. A reader that fell behind by more
  // than the ring skips to the oldest record left and counts what it missed.
  [[nodiscard]] std::optional<progress_record> next();
  [[nodiscard]] std::uint64_t missed() const { return missed_; }
  // Position for a reader that takes over from another one.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position) { position_ = position; }
  // Goes to the newest `count` records, or to the oldest one left; what lies before is not missed.
  void seek_newest(std::uint64_t count);

 private:
  const std::byte* base_;
  std::uint64_t position_ = 0;
  std::uint64_t missed_ = 0;
};

}  // namespace ftrt::storage
