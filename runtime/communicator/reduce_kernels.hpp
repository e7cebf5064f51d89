#pragma once

#include <cstddef>
#include <runtime/communicator/communicator.hpp>

namespace ftrt::shm {

// The arithmetic of a reduction, element by element and in the order of the operands, so that no
// result depends on the width of a vector register. `max` lets a NaN through. Operands are aligned
// to their element and do not overlap.
struct reduce_kernel {
  // out = a op b
  void (*combine)(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count);
  // inout = inout op x
  void (*accumulate)(std::byte* inout, const std::byte* x, std::size_t count);
  // a = b = a op b
  void (*combine_in_both)(std::byte* a, std::byte* b, std::size_t count);
};

// Null where the type cannot be reduced (all but f32, f64, i64).
[[nodiscard]] const reduce_kernel* kernel_for(dtype type, reduce_op op);

}  // namespace ftrt::shm
