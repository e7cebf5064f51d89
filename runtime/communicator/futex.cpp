#include <runtime/communicator/futex.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>
#include <ftrt/error.hpp>

namespace ftrt::shm {
namespace {

using std::chrono::milliseconds;

#ifdef SYS_futex_waitv
constexpr long futex_waitv_call = SYS_futex_waitv;
#else
constexpr long futex_waitv_call = 449;  // the same on every architecture
#endif

// As in <linux/futex.h> since 5.16; older headers lack it.
struct waitv_entry {
  std::uint64_t val = 0;
  std::uint64_t uaddr = 0;
  std::uint32_t flags = 2;  // FUTEX_32, shared
  std::uint32_t reserved = 0;
};

constexpr milliseconds longest_blind_sleep{2};

std::atomic<bool> waitv_missing{false};
std::atomic<bool> waitv_forbidden{false};

timespec to_timespec(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  timespec spec{};
  spec.tv_sec = seconds.count();
  spec.tv_nsec = (time - seconds).count();
  return spec;
}

// False where the kernel does not offer the call.
bool sleep_on_all(std::span<const awaited_word> words, steady_time deadline) {
  std::array<waitv_entry, max_awaited_words> entries;
  for (std::size_t i = 0; i < words.size(); ++i) {
    entries[i].val = words[i].value;
    entries[i].uaddr = reinterpret_cast<std::uintptr_t>(words[i].word);
  }
  const timespec until = to_timespec(deadline.time_since_epoch());  // steady_clock: CLOCK_MONOTONIC
  const long rc =
      syscall(futex_waitv_call, entries.data(), words.size(), 0, &until, CLOCK_MONOTONIC);
  return rc >= 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
}

void sleep_on_first(const awaited_word& first, steady_time deadline) {
  const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
  const std::chrono::nanoseconds nap =
      std::min<std::chrono::nanoseconds>(left, longest_blind_sleep);
  if (nap.count() <= 0) return;
  const timespec time = to_timespec(nap);
  syscall(SYS_futex, first.word, FUTEX_WAIT, first.value, &time, nullptr, 0);
}

}  // namespace

bool can_sleep_on_several() noexcept {
  return !waitv_missing.load(std::memory_order_relaxed) &&
         !waitv_forbidden.load(std::memory_order_relaxed);
}

void sleep_on(std::span<const awaited_word> words, steady_time deadline) {
  FTRT_ASSERT(!words.empty() && words.size() <= max_awaited_words);
  const bool usable = can_sleep_on_several();
  if (usable && sleep_on_all(words, deadline)) return;
  if (usable) waitv_missing.store(true, std::memory_order_relaxed);
  sleep_on_first(words.front(), deadline);
}

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void forbid_waitv(bool forbidden) noexcept {
  waitv_forbidden.store(forbidden, std::memory_order_relaxed);
}

}  // namespace ftrt::shm
