#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

// Sleeping on words of shared memory. All words are process-shared and 32 bits wide.
namespace ftrt::shm {

using steady_time = std::chrono::steady_clock::time_point;

// A word and the value that it must still have for the sleep to begin.
struct awaited_word {
  const std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t value = 0;
};

inline constexpr std::size_t max_awaited_words = 128;  // the kernel's limit of futex_waitv

// Sleeps until one of the words is woken, one no longer has its value, or `deadline`. Returns for
// no reason too: look again at what you wait for. At most max_awaited_words words.
//
// Where the kernel has no futex_waitv (before 5.16, or a sandbox that forbids it) it sleeps on the
// first word alone, at most two milliseconds.
void sleep_on(std::span<const awaited_word> words, steady_time deadline);

// Whether the kernel has futex_waitv, as far as is known: a sleep finds out.
[[nodiscard]] bool can_sleep_on_several() noexcept;

void wake_all(const std::atomic<std::uint32_t>& word) noexcept;

// Makes sleep_on() do without futex_waitv, as on an old kernel. For tests.
void forbid_waitv(bool forbidden) noexcept;

}  // namespace ftrt::shm
