#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <runtime/communicator/communicator.hpp>

namespace ftrt::shm {

[[nodiscard]] std::uint64_t bytes_of(const bucket_region& region);

// Refuses (invalid_argument) a region that is misaligned, of a type that cannot be reduced, or not
// wholly within a bucket of `bucket_bytes`.
[[nodiscard]] result<void> validate(const bucket_region& region, std::uint64_t bucket_bytes);

[[nodiscard]] bool overlap(const bucket_region& a, const bucket_region& b);

}  // namespace ftrt::shm
