#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <functional>
#include <schemas/state_layout.hpp>
#include <span>
#include <vector>

namespace ftrt {

enum class reduce_op : std::uint8_t { sum, max };

// A typed range of a rank's bucket memory; the same offsets mean the same thing on every rank.
struct bucket_region {
  std::uint64_t offset_bytes = 0;  // a multiple of tensor_alignment_bytes
  std::uint64_t count = 0;         // elements
  dtype type = dtype::f32;         // f32, f64, i64
};

// Collectives among the ranks of one generation.
//
// Every call is made by the training thread, in the same order on all ranks, and blocks until done;
// abort() alone may come from any thread, at any time, set-up included, and releases every blocked
// call of this rank and of its peers. After an abort or a lost peer every call fails: make a new
// communicator for the next generation.
//
// Errors: peer_lost (the context names the ranks: "1,3"), aborted, timeout.
//
// Results are deterministic: sums are taken in rank order, element by element, whatever the timing;
// every rank ends with the same bits.
class communicator {
 public:
  virtual ~communicator() = default;

  [[nodiscard]] virtual rank_id rank() const = 0;
  [[nodiscard]] virtual std::uint32_t world_size() const = 0;
  [[nodiscard]] virtual generation_id generation() const = 0;

  // In-place reductions of bucket memory, pipelined: begin_ posts this rank's contribution and
  // returns at once (reducing, on the way, what all ranks have already posted); the region must not
  // be touched until finish_reductions() has returned. A region that was begun is begun by all.
  virtual result<void> begin_all_reduce(const bucket_region& region, reduce_op op) = 0;
  virtual result<void> finish_reductions() = 0;
  result<void> all_reduce(const bucket_region& region, reduce_op op) {
    if (auto begun = begin_all_reduce(region, op); !begun) return begun;
    return finish_reductions();
  }

  // Rank r ends with the reduced chunk r of the region (chunk_of); the rest of it is undefined.
  virtual result<void> reduce_scatter(const bucket_region& region, reduce_op op) = 0;
  // Rank r contributes chunk r of the region; all end with all chunks.
  virtual result<void> all_gather(const bucket_region& region) = 0;
  virtual result<void> broadcast(std::span<std::byte> bytes, rank_id root) = 0;
  virtual result<void> send(std::span<const std::byte> bytes, rank_id to) = 0;
  virtual result<void> recv(std::span<std::byte> bytes, rank_id from) = 0;
  virtual result<void> barrier() = 0;

  // Gathers one small word from each rank (all of one size, at most max_word_bytes) into `all`, in
  // rank order. `key` grows from call to call.
  static constexpr std::size_t max_word_bytes = 256;
  virtual result<void> exchange(std::uint64_t key, std::span<const std::byte> mine,
                                std::span<std::byte> all) = 0;
  // Whether every rank has contributed to the last exchange with this key, and then its words; also
  // after abort(). Once no rank can change it any more (all parked or dead), the answer is the same
  // on every rank: what any rank saw, every rank can still read.
  [[nodiscard]] virtual bool exchanged(std::uint64_t key, std::span<std::byte> all) = 0;

  // Collectives completed by this rank so far.
  [[nodiscard]] virtual std::uint64_t sequence() const = 0;

  // Fails once the generation has ended; does not block. For whoever computes between two calls.
  virtual result<void> check() = 0;

  // Ranks whose threads were seen dead.
  [[nodiscard]] virtual std::vector<rank_id> lost_peers() const = 0;

  // `beat` is called on the training thread each time that a call of this rank goes to sleep for
  // want of a peer, many times a second while that lasts: a rank that waits shows that it lives. It
  // must be cheap and outlive the last call. A communicator that cannot say so calls nobody.
  virtual void on_wait(std::function<void()> beat) { static_cast<void>(beat); }

  // From now on peers are watched even while this rank computes: `tell` is called, at most once and
  // on a thread of the communicator's own, as soon as one is seen dead, which also ends the
  // generation for all. It must be cheap, and live as long as this object. A communicator that
  // cannot watch finds a death in its next collective.
  virtual void on_loss(std::function<void(std::vector<rank_id> lost)> tell) {
    static_cast<void>(tell);
  }

  virtual void abort() noexcept = 0;
};

// The part of a region that rank r reduces: whole cache lines, contiguous, about equal.
struct region_chunk {
  std::uint64_t begin = 0;  // elements
  std::uint64_t end = 0;
};
[[nodiscard]] region_chunk chunk_of(const bucket_region& region, rank_id rank,
                                    std::uint32_t world_size);

}  // namespace ftrt
