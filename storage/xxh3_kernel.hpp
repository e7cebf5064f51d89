#pragma once

#include <cstddef>
#include <cstdint>

namespace ftrt::storage {

// xxh3-128 compiled for one instruction set. Debian's shared library knows SSE2 only, at half the
// speed of AVX2 or less; so the header-only form is compiled twice, and the machine chooses.
// The sources of the kernels include nothing but xxhash.h: a template of the standard library that
// was instantiated with AVX2 could be picked by the linker for everybody.
struct xxh3_kernel {
  static constexpr std::size_t state_bytes = 1024;  // 64-byte aligned

  void (*reset)(void* state);
  void (*update)(void* state, const void* data, std::size_t bytes);
  // Canonical (big-endian) form.
  void (*digest)(const void* state, std::uint8_t* out16);
};

[[nodiscard]] const xxh3_kernel& xxh3_portable();
#if defined(__x86_64__)
[[nodiscard]] const xxh3_kernel& xxh3_avx2();
#endif

}  // namespace ftrt::storage
