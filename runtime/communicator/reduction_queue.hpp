#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <ftrt/error.hpp>
#include <runtime/communicator/communicator.hpp>
#include <runtime/communicator/peers.hpp>
#include <span>
#include <vector>

namespace ftrt::shm {

// The collectives on bucket memory, in flight and in the order in which they were begun.
//
// All ranks number their regions alike, 1, 2, ... A rank posts number i once its contribution
// stands, and executes the regions in order, each as soon as all ranks have posted it:
//   in place   rank r reduces chunk r out of all buckets into all buckets, then says `reduced`;
//              the region is done when all ranks have said so: two messages, no copy
//   short      each rank has put a copy into its sync area when it posted; every rank reduces all
//              copies into its own bucket: one message
// Both take the operands in rank order, so both give the same bits.
//
// Copies of short regions live in two sets, used by turns, one set for each batch (the regions
// between two drains). A set is reused two batches on, when all ranks have posted in the batch
// between, hence left the one before.
//
// With each number stands a heading, a hash of what the region is. Ranks that call different
// collectives under one number are told so (invalid_argument) instead of getting wrong sums.
//
// Owned by the communicator, on its thread.
class reduction_queue {
 public:
  // `buckets`: one for each rank, in rank order, all of them at least as long as the shortest.
  reduction_queue(peers& all, std::vector<std::span<std::byte>> buckets);

  // Refuses a region that is out of bounds or overlaps one in flight. Executes what is ready.
  [[nodiscard]] result<void> begin_all_reduce(const bucket_region& region, reduce_op op);
  [[nodiscard]] result<void> begin_reduce_scatter(const bucket_region& region, reduce_op op);
  [[nodiscard]] result<void> begin_all_gather(const bucket_region& region);
  // Nothing but the meeting.
  [[nodiscard]] result<void> begin_barrier();

  // Blocks until all that was begun is done on all ranks.
  [[nodiscard]] result<void> drain();

  [[nodiscard]] std::uint64_t completed() const { return completed_; }

 private:
  enum class kind : std::uint8_t { reduce_in_place, reduce_short, reduce_scatter, gather, barrier };
  struct entry {
    kind what = kind::barrier;
    bucket_region region;
    reduce_op op = reduce_op::sum;
    std::size_t slot = 0;  // short regions
  };

  [[nodiscard]] result<void> begin(entry next);
  [[nodiscard]] bool fits_short(const bucket_region& region) const;
  [[nodiscard]] result<void> execute_ready(bool wait);
  [[nodiscard]] result<void> await_all(const std::atomic<std::uint64_t> rank_area::*counter,
                                       std::uint64_t value);
  [[nodiscard]] bool all_posted(std::uint64_t number) const;
  [[nodiscard]] result<void> check_headings(std::uint64_t number, const entry& mine);
  [[nodiscard]] static std::uint64_t heading_of(std::uint64_t number, const entry& of);

  [[nodiscard]] result<void> execute(const entry& next);
  void reduce_short(const entry& next);
  [[nodiscard]] result<void> reduce_own_chunk(const entry& next);
  [[nodiscard]] result<void> gather_chunks(const entry& next);
  void reduce_tile(const entry& next, std::uint64_t offset_bytes, std::uint64_t count);

  peers& peers_;
  std::vector<std::span<std::byte>> buckets_;
  std::uint64_t bucket_bytes_;   // of the shortest
  std::deque<entry> in_flight_;  // posted, not yet executed
  std::vector<bucket_region> undrained_;
  std::uint64_t posted_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t last_in_place_ = 0;  // the last number whose end takes a second message
  std::uint64_t batch_ = 0;
  std::size_t shorts_in_batch_ = 0;
};

}  // namespace ftrt::shm
