#pragma once

#include <cstdint>
#include <limits>

namespace ftrt::data {

// One 64-bit word from another, every bit depending on every bit (the finaliser of splitmix64,
// Steele, Lea, Flood 2014).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A pure function of a seed and any number of words: randomness that needs no state, so that none
// can be lost.
template <class... Words>
[[nodiscard]] constexpr std::uint64_t hash_of(std::uint64_t seed, Words... words) {
  std::uint64_t h = mix(seed + 0x9e3779b97f4a7c15ULL);
  ((h = mix(h ^ mix(static_cast<std::uint64_t>(words) + 0x9e3779b97f4a7c15ULL))), ...);
  return h;
}

// A stream of words from one key: word i is a function of (key, i).
class counter_random {
 public:
  explicit constexpr counter_random(std::uint64_t key) : key_(key) {}

  constexpr std::uint64_t next() { return mix(key_ + (++counter_) * 0x9e3779b97f4a7c15ULL); }

  // Uniform in 0 .. bound-1, without bias. bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    constexpr auto all = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t word = next();
    // The words from the last whole multiple of `bound` on are not fair. It is above all - bound,
    // so that a division tells of nearly no word what a subtraction has told already.
    while (word > all - bound && word >= all - all % bound) word = next();
    return word % bound;
  }

  // Uniform in [0, 1), 24 bits.
  constexpr float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace ftrt::data
