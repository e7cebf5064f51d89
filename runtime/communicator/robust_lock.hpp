#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <ftrt/error.hpp>

namespace ftrt::shm {

// A thread's sign of life in shared memory: a robust mutex that the thread locks once and holds as
// long as it lives. When the thread dies, by SIGKILL too, the kernel marks the word and wakes one
// sleeper on it, within a fraction of a millisecond whatever the size of the process.
//
// The word of a rank that has not come yet, or has left, is 0: that is not dead.
struct robust_lock_word {
  pthread_mutex_t mutex;

  // The futex in it.
  [[nodiscard]] const std::atomic<std::uint32_t>& word() const;
  [[nodiscard]] bool owner_died() const;
};

// Locks the (zero-filled) lock for the calling thread.
[[nodiscard]] result<void> take(robust_lock_word& lock);
// Only on the thread that took it.
void release(robust_lock_word& lock);

}  // namespace ftrt::shm
