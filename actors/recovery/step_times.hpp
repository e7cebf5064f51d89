#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ftrt::recovery {

// How long the run's own iterations take of late: what a deadline for them is tuned from. Pure;
// bounded memory.
class step_times {
 public:
  // `count` iterations took `elapsed` together.
  void add(std::uint64_t count, std::chrono::nanoseconds elapsed);
  // What all but the slowest few of them took at most; empty until enough of them are known.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> high() const;

 private:
  static constexpr std::size_t remembered = 64;
  static constexpr std::size_t enough = 5;                // samples, or
  static constexpr std::uint64_t enough_iterations = 10;  // so many in fewer of them
  static constexpr std::size_t outliers_of_16 = 1;        // of 16 samples, so many are not believed

  std::array<std::chrono::nanoseconds, remembered> samples_{};
  std::size_t added_ = 0;
  std::uint64_t iterations_ = 0;
};

}  // namespace ftrt::recovery
