#pragma once

#include <cstddef>
#include <cstdint>
#include <runtime/communicator/communicator.hpp>
#include <runtime/training/state_map.hpp>
#include <vector>

namespace ftrt::training {

// Which parameters are reduced together. Bucket 0 holds the last parameters, whose gradients are
// the first that backward finishes; each is one contiguous float range of the bucket memory.
struct bucket_plan {
  std::vector<bucket_region> regions;   // in the order in which they are begun, on every rank
  std::vector<std::size_t> bucket_of;   // parameter -> bucket
  std::vector<std::size_t> parameters;  // bucket -> how many parameters
};

// A bucket ends before it would pass `max_bytes`; a parameter larger than that has one of its own.
[[nodiscard]] bucket_plan plan_buckets(const state_map& map, std::uint64_t max_bytes);

}  // namespace ftrt::training
