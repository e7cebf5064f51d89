#pragma once

#include <chrono>
#include <cstddef>
#include <ftrt/error.hpp>
#include <memory>
#include <mutex>
#include <schemas/unique_fd.hpp>
#include <stop_token>
#include <storage/shared_memory.hpp>
#include <thread>
#include <vector>

namespace ftrt::worker {

// The state memories that a spare may have to copy from, mapped read-only and with every page
// touched before anybody waits for it: a fresh mapping takes a fault for every 16 pages, which
// makes the copy of a GB three times as long.
//
//   source_memories sources{arena_bytes};
//   sources.expect(descriptors);             // as often as control says; touches in the background
//   sources.stop_touching();                 // it is assigned: whatever was not done is left
//   auto memory = sources.find(descriptor);  // its join: nullptr where it was not expected
//   sources.give_back_later();               // it trains
//
// A thread of its own touches and gives back, at the priority of all others, since the kernel lets
// nobody map memory meanwhile: who did it at a low one could be put aside in the midst of it. So
// that it takes nothing from those who train, it works in slices of a fraction of a millisecond and
// then sleeps twenty times as long.
//
// Owned by a spare and then by the rank that it becomes. All methods are for one thread, the
// process's main one; none blocks for longer than a slice. Destroyed after the last user of what
// find() gave.
class source_memories {
 public:
  // Every memory is mapped with so many bytes.
  explicit source_memories(std::size_t size_bytes) : size_bytes_(size_bytes) {}
  ~source_memories() = default;
  source_memories(const source_memories&) = delete;
  source_memories& operator=(const source_memories&) = delete;

  // These instead of what was said before; what is among both stays as it is. corrupt: one is
  // unsealed or too small; busy and the like: no thread is to be had. After an error the same are
  // expected as before; after one of the thread, they stay as far touched as they are.
  [[nodiscard]] result<void> expect(std::vector<unique_fd> descriptors);

  // The thread has ended when this returns.
  void stop_touching() { thread_ = {}; }

  // The mapping of the very file, touched or not; nullptr: there is none.
  [[nodiscard]] std::shared_ptr<const storage::shared_memory> find(const unique_fd& file) const;

  // Unmaps all of them a second from now, once nobody uses them: they would keep the memory of a
  // rank that dies. Not at once, since the first iterations are waited for. Does nothing when there
  // are none.
  void give_back_later();

 private:
  using memory_ptr = std::shared_ptr<storage::shared_memory>;

  [[nodiscard]] memory_ptr find_expected(const unique_fd& file) const;
  // Once the thread has ended what it did before.
  template <class Work>
  [[nodiscard]] result<void> start(Work work);

  // On the thread.
  void touch(const std::stop_token& stop, const std::vector<memory_ptr>& memories) const;
  void give_back(const std::stop_token& stop);
  [[nodiscard]] memory_ptr next_retired();

  const std::size_t size_bytes_;
  std::vector<memory_ptr> expected_;
  std::mutex mutex_;                 // guards the next one
  std::vector<memory_ptr> retired_;  // to be given back; find() does not give them any more
  std::jthread thread_;              // last: it ends before what it uses
};

}  // namespace ftrt::worker
