#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <schemas/state_layout.hpp>
#include <span>
#include <string>
#include <string_view>

namespace ftrt::storage {

// xxh3-128 as two words.
struct digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const digest128&, const digest128&) = default;
};

// xxh3-128 as 32 lower-case hex digits.
[[nodiscard]] std::string digest_of(std::span<const std::byte> bytes);

// The same, fed in pieces.
class digest_stream {
 public:
  digest_stream();
  ~digest_stream();
  digest_stream(const digest_stream&) = delete;
  digest_stream& operator=(const digest_stream&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  [[nodiscard]] std::string hex() const;
  [[nodiscard]] digest128 words() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// The run's weights_digest: over parameters and buffers in name order; for each one name, dtype,
// shape and bytes. The same for the same weights, whatever the layout. `arena` has
// layout.arena_bytes.
[[nodiscard]] std::string weights_digest(const state_layout& layout,
                                         std::span<const std::byte> arena);

// Over every tensor's bytes in layout order: what ranks compare when they join. Padding is left
// out.
[[nodiscard]] std::string state_digest(const state_layout& layout,
                                       std::span<const std::byte> arena);
// The same as words.
[[nodiscard]] digest128 state_digest_words(const state_layout& layout,
                                           std::span<const std::byte> arena);

}  // namespace ftrt::storage
