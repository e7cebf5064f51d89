#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <vector>

// Random messages that the protocol allows, and how to compare two. The same seed gives the same
// messages; a test prints its seed.
namespace ftrt::protocol::testing {

class message_source {
 public:
  explicit message_source(std::uint64_t seed) : random_(seed) {}

  // The message type at `index` of the variant, with random content.
  [[nodiscard]] message of_type(std::size_t index);
  // Any type.
  [[nodiscard]] message any();

  [[nodiscard]] std::uint64_t number() { return random_(); }
  // 0 .. limit - 1
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  // Bytes of any value but, where told so, NUL.
  [[nodiscard]] std::string text(std::size_t max_bytes, bool with_nul = true);
  [[nodiscard]] state_layout layout(std::size_t tensors);
  // Any bit pattern, NaNs with a payload and denormals among them.
  [[nodiscard]] double any_double();

 private:
  std::mt19937_64 random_;
};

// Well-formed and of this version, but of `extra_bytes` more than a query has: refused.
[[nodiscard]] std::vector<std::byte> oversized_query(std::size_t extra_bytes);

// All fields equal; floats by their bits.
[[nodiscard]] bool same(const message& a, const message& b);

}  // namespace ftrt::protocol::testing
