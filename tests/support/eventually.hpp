#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace ftrt::test {

#ifdef FTRT_SANITIZED
constexpr std::chrono::seconds usual_patience{150};  // sanitized code on a busy machine
#else
constexpr std::chrono::seconds usual_patience{30};
#endif

// Whether the condition comes to hold within the time. It is looked at each millisecond: for what
// has no event to wait for, as a page or a mapping of another process.
[[nodiscard]] inline bool eventually(const std::function<bool()>& condition,
                                     std::chrono::milliseconds patience = usual_patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace ftrt::test
