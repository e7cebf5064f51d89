#include <runtime/communicator/robust_lock.hpp>

#include <linux/futex.h>

namespace ftrt::shm {
namespace {

#ifndef __GLIBC__
#error "the futex word of a pthread_mutex_t is known for glibc only"
#endif
// glibc's ABI: static initialisers bake the layout into programs, the futex word comes first.
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

std::atomic<std::uint32_t>& word_of(pthread_mutex_t& mutex) {
  return reinterpret_cast<std::atomic<std::uint32_t>&>(mutex);
}

int init_robust(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  if (int rc = pthread_mutexattr_init(&attributes); rc != 0) return rc;
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int rc = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return rc;
}

}  // namespace

const std::atomic<std::uint32_t>& robust_lock_word::word() const {
  return reinterpret_cast<const std::atomic<std::uint32_t>&>(mutex);
}

bool robust_lock_word::owner_died() const {
  return (word().load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

result<void> take(robust_lock_word& lock) {
  if (int rc = init_robust(lock.mutex); rc != 0) return fail_errno("pthread_mutex_init", rc);
  if (int rc = pthread_mutex_lock(&lock.mutex); rc != 0) {
    return fail_errno("pthread_mutex_lock", rc);
  }
  // The kernel wakes sleepers of a dead owner only if this bit is set. Sleepers come and go, so
  // the owner sets it once and for all.
  word_of(lock.mutex).fetch_or(FUTEX_WAITERS, std::memory_order_acq_rel);
  return {};
}

void release(robust_lock_word& lock) {
  const int rc = pthread_mutex_unlock(&lock.mutex);
  FTRT_ASSERT(rc == 0);  // EPERM: another thread than the one that took it
}

}  // namespace ftrt::shm
