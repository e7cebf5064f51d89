#include <runtime/communicator/reduction_queue.hpp>

#include <algorithm>
#include <cstring>
#include <runtime/communicator/reduce_kernels.hpp>
#include <runtime/communicator/region.hpp>
#include <string>
#include <utility>

namespace ftrt::shm {
namespace {

// With three ranks or more the partial sum of a tile stays in the first-level cache.
constexpr std::size_t tile_bytes = 16 * 1024;
// How much is reduced between two looks at whether the generation has ended.
constexpr std::size_t stretch_bytes = 256 * 1024;

std::uint64_t shortest(const std::vector<std::span<std::byte>>& buckets) {
  std::uint64_t bytes = buckets.front().size();
  for (const auto& bucket : buckets) bytes = std::min<std::uint64_t>(bytes, bucket.size());
  return bytes;
}

}  // namespace

reduction_queue::reduction_queue(peers& all, std::vector<std::span<std::byte>> buckets)
    : peers_(all), buckets_(std::move(buckets)), bucket_bytes_(shortest(buckets_)) {}

result<void> reduction_queue::begin_all_reduce(const bucket_region& region, reduce_op op) {
  if (auto valid = validate(region, bucket_bytes_); !valid) return valid;
  return begin({fits_short(region) ? kind::reduce_short : kind::reduce_in_place, region, op, 0});
}

result<void> reduction_queue::begin_reduce_scatter(const bucket_region& region, reduce_op op) {
  if (auto valid = validate(region, bucket_bytes_); !valid) return valid;
  return begin({kind::reduce_scatter, region, op, 0});
}

result<void> reduction_queue::begin_all_gather(const bucket_region& region) {
  if (auto valid = validate(region, bucket_bytes_); !valid) return valid;
  return begin({kind::gather, region, reduce_op::sum, 0});
}

result<void> reduction_queue::begin_barrier() {
  return begin({});
}

// A function of the order of calls alone, which is the same on all ranks.
bool reduction_queue::fits_short(const bucket_region& region) const {
  return bytes_of(region) <= short_region_bytes && shorts_in_batch_ < short_regions_in_flight;
}

result<void> reduction_queue::begin(entry next) {
  if (auto alive = peers_.check(); !alive) return alive;
  for (const bucket_region& other : undrained_) {
    if (overlap(other, next.region)) {
      return fail(error_code::invalid_argument,
                  "region at byte " + std::to_string(next.region.offset_bytes) +
                      " overlaps the one at " + std::to_string(other.offset_bytes) +
                      ", which is still in flight; call finish_reductions() first");
    }
  }
  ++posted_;
  if (next.what == kind::reduce_short) {
    next.slot = shorts_in_batch_++;
    std::memcpy(peers_.mine().shorts[batch_ % 2][next.slot],
                buckets_[peers_.rank()].data() + next.region.offset_bytes, bytes_of(next.region));
  } else if (next.what != kind::barrier) {
    last_in_place_ = posted_;
  }
  if (next.region.count != 0) undrained_.push_back(next.region);
  in_flight_.push_back(next);
  peers_.mine().headings[posted_ % remembered_regions].store(heading_of(posted_, next),
                                                             std::memory_order_relaxed);
  peers_.publish(peers_.mine().posted, posted_);
  return execute_ready(false);
}

result<void> reduction_queue::drain() {
  if (posted_ == completed_) return peers_.check();
  if (auto executed = execute_ready(true); !executed) return executed;
  if (auto done = await_all(&rank_area::reduced, last_in_place_); !done) return done;
  completed_ = executed_;
  undrained_.clear();
  shorts_in_batch_ = 0;
  ++batch_;
  return {};
}

result<void> reduction_queue::execute_ready(bool wait) {
  while (!in_flight_.empty()) {
    const std::uint64_t number = executed_ + 1;
    if (!wait && !all_posted(number)) return {};
    if (auto posted = await_all(&rank_area::posted, number); !posted) return posted;
    const entry next = in_flight_.front();
    if (auto same = check_headings(number, next); !same) return same;
    if (auto executed = execute(next); !executed) return executed;
    in_flight_.pop_front();
    executed_ = number;
    const bool in_place = next.what != kind::reduce_short && next.what != kind::barrier;
    if (in_place) peers_.publish(peers_.mine().reduced, number);
  }
  return {};
}

bool reduction_queue::all_posted(std::uint64_t number) const {
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (peers_.area(rank).posted.load(std::memory_order_acquire) < number) return false;
  }
  return true;
}

// The number above, a hash below.
std::uint64_t reduction_queue::heading_of(std::uint64_t number, const entry& of) {
  std::uint64_t hash = 0;
  for (std::uint64_t part :
       {std::uint64_t(of.what), std::uint64_t(of.op), std::uint64_t(of.region.type),
        of.region.offset_bytes, of.region.count}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return number << 32 | (hash & 0xffffffff);
}

result<void> reduction_queue::check_headings(std::uint64_t number, const entry& mine) {
  const std::uint64_t expected = heading_of(number, mine);
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    const std::uint64_t found =
        peers_.area(rank).headings[number % remembered_regions].load(std::memory_order_relaxed);
    // A rank that is far ahead has written a later one there: it has not got this one wrong.
    if (found == expected || found >> 32 != expected >> 32) continue;
    return peers_.end_with(
        {error_code::invalid_argument,
         "rank " + std::to_string(rank) + " called another collective than rank " +
             std::to_string(peers_.rank()) + " as number " + std::to_string(number) +
             "; all ranks must call the same ones in the same order",
         std::to_string(rank)});
  }
  return {};
}

result<void> reduction_queue::await_all(const std::atomic<std::uint64_t> rank_area::*counter,
                                        std::uint64_t value) {
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (rank == peers_.rank()) continue;
    if (auto there = peers_.await(rank, peers_.area(rank).*counter, value); !there) return there;
  }
  return {};
}

result<void> reduction_queue::execute(const entry& next) {
  switch (next.what) {
    case kind::barrier:
      return {};
    case kind::reduce_short:
      reduce_short(next);
      return {};
    case kind::gather:
      return gather_chunks(next);
    case kind::reduce_in_place:
    case kind::reduce_scatter:
      return reduce_own_chunk(next);
  }
  return {};
}

void reduction_queue::reduce_short(const entry& next) {
  if (peers_.world_size() == 1) return;
  const reduce_kernel& kernel = *kernel_for(next.region.type, next.op);
  std::byte* out = buckets_[peers_.rank()].data() + next.region.offset_bytes;
  const auto copy_of = [&](std::uint32_t rank) {
    return peers_.area(rank).shorts[batch_ % 2][next.slot];
  };
  kernel.combine(out, copy_of(0), copy_of(1), next.region.count);
  for (std::uint32_t rank = 2; rank < peers_.world_size(); ++rank) {
    kernel.accumulate(out, copy_of(rank), next.region.count);
  }
}

result<void> reduction_queue::reduce_own_chunk(const entry& next) {
  if (peers_.world_size() == 1) return {};
  const region_chunk mine = chunk_of(next.region, rank_id{peers_.rank()}, peers_.world_size());
  const std::uint64_t element_bytes = size_of(next.region.type);
  const bool pair = next.what == kind::reduce_in_place && peers_.world_size() == 2;
  const std::size_t step = (pair ? stretch_bytes : tile_bytes) / element_bytes;
  for (std::uint64_t at = mine.begin; at < mine.end; at += step) {
    if (peers_.ended()) return peers_.check();
    reduce_tile(next, next.region.offset_bytes + at * element_bytes,
                std::min<std::uint64_t>(step, mine.end - at));
  }
  return {};
}

void reduction_queue::reduce_tile(const entry& next, std::uint64_t offset_bytes,
                                  std::uint64_t count) {
  const reduce_kernel& kernel = *kernel_for(next.region.type, next.op);
  std::byte* first = buckets_[0].data() + offset_bytes;
  std::byte* second = buckets_[1].data() + offset_bytes;
  const bool everywhere = next.what == kind::reduce_in_place;
  if (everywhere && buckets_.size() == 2) return kernel.combine_in_both(first, second, count);

  alignas(64) std::byte partial[tile_bytes];
  kernel.combine(partial, first, second, count);
  for (std::size_t rank = 2; rank < buckets_.size(); ++rank) {
    kernel.accumulate(partial, buckets_[rank].data() + offset_bytes, count);
  }
  const std::size_t bytes = count * size_of(next.region.type);
  for (std::uint32_t rank = 0; rank < buckets_.size(); ++rank) {
    if (everywhere || rank == peers_.rank()) {
      std::memcpy(buckets_[rank].data() + offset_bytes, partial, bytes);
    }
  }
}

result<void> reduction_queue::gather_chunks(const entry& next) {
  const std::uint64_t element_bytes = size_of(next.region.type);
  std::byte* own = buckets_[peers_.rank()].data();
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (rank == peers_.rank()) continue;
    const region_chunk theirs = chunk_of(next.region, rank_id{rank}, peers_.world_size());
    const std::uint64_t end = next.region.offset_bytes + theirs.end * element_bytes;
    for (std::uint64_t at = next.region.offset_bytes + theirs.begin * element_bytes; at < end;
         at += stretch_bytes) {
      if (peers_.ended()) return peers_.check();
      std::memcpy(own + at, buckets_[rank].data() + at,
                  std::min<std::uint64_t>(stretch_bytes, end - at));
    }
  }
  return {};
}

}  // namespace ftrt::shm
