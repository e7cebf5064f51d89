#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ftrt::storage {

// A 64-bit word of shared memory. Two processes at different addresses may use it at once, so it
// must be lock-free; on a read-only mapping only load() may be called.
using shared_word = std::atomic_ref<std::uint64_t>;
static_assert(shared_word::is_always_lock_free);

// `base` is page-aligned, `index` counts words. const_cast: atomic_ref knows no const in C++20.
[[nodiscard]] inline shared_word word_at(const std::byte* base, std::size_t index) {
  auto* bytes = const_cast<std::byte*>(base) + index * sizeof(std::uint64_t);
  return shared_word{*reinterpret_cast<std::uint64_t*>(bytes)};
}

}  // namespace ftrt::storage
