#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>

namespace ftrt {

// A number that cannot be mistaken for another kind of number: a rank is no generation, and neither
// is an iteration. Explicit both ways; ordered, hashable, printable, and nothing more.
//
//   generation_id g{3};
//   generation_id next{g.value() + 1};
template <class Tag, class Rep>
class strong_number {
 public:
  using rep = Rep;

  constexpr strong_number() = default;
  constexpr explicit strong_number(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  [[nodiscard]] constexpr strong_number next() const {
    return strong_number{static_cast<Rep>(value_ + 1)};
  }

  friend constexpr auto operator<=>(strong_number, strong_number) = default;
  friend std::ostream& operator<<(std::ostream& out, strong_number n) { return out << +n.value_; }

 private:
  Rep value_{};
};

// A place in the communicator, 0 .. world_size - 1.
using rank_id = strong_number<struct rank_tag, std::uint32_t>;
// The nth worker process of a rank, from 1.
using incarnation_id = strong_number<struct incarnation_tag, std::uint32_t>;
// One membership of ranks with one communicator, from 1; 0 means "none yet".
using generation_id = strong_number<struct generation_tag, std::uint64_t>;
// A committed window of data: iteration k is the kth commit, from 1; 0 is the initial state.
using iteration_id = strong_number<struct iteration_tag, std::uint64_t>;
// A stretch of history between two rollbacks, from 1.
using branch_id = strong_number<struct branch_tag, std::uint32_t>;

// Operands of matrix kernels must share one alignment, or their results differ in bits
// (docs/adr/0002): every tensor in buckets, arenas and snapshots starts on this boundary.
inline constexpr std::size_t tensor_alignment_bytes = 64;

[[nodiscard]] constexpr std::size_t align_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace ftrt

template <class Tag, class Rep>
struct std::hash<ftrt::strong_number<Tag, Rep>> {
  std::size_t operator()(ftrt::strong_number<Tag, Rep> n) const noexcept {
    return std::hash<Rep>{}(n.value());
  }
};
