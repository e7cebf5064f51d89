#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <runtime/communicator/shm_communicator.hpp>
#include <span>
#include <storage/shared_memory.hpp>
#include <string>
#include <vector>

namespace ftrt::tests {

using namespace std::chrono_literals;

// What a rank does; returns "" if all was well, else what was not. Runs in a child or in a thread.
using rank_program = std::function<std::string(std::uint32_t rank)>;

// How a rank's process ended.
struct rank_end {
  bool killed = false;      // by a signal
  bool overstayed = false;  // had to be killed at the deadline
  int code = 0;             // exit code or signal
};

// Ranks as child processes. Prints a child's complaint on stderr. Whatever happens, no child
// outlives the object, nor the test program.
class forked_ranks {
 public:
  forked_ranks(std::uint32_t count, const rank_program& program);
  ~forked_ranks();
  forked_ranks(const forked_ranks&) = delete;
  forked_ranks& operator=(const forked_ranks&) = delete;

  void kill(std::uint32_t rank);
  // Waits for one rank, for all of them; at the deadline they are killed.
  rank_end wait(std::uint32_t rank, std::chrono::milliseconds deadline = 20s);
  std::vector<rank_end> wait_all(std::chrono::milliseconds deadline = 20s);

 private:
  struct child {
    pid_t pid = -1;
    int pidfd = -1;
    bool reaped = false;
    rank_end end;
  };
  std::vector<child> children_;
};

// Runs the program in every rank and expects every one to end well.
void expect_all_well(std::uint32_t count, const rank_program& program);
void expect_all_well_in_threads(std::uint32_t count, const rank_program& program);

// The memories of a run: buckets that stay, a sync block for each generation. Copies of it in
// forked children reach the same memory.
class rank_world {
 public:
  rank_world(std::uint32_t world_size, std::size_t bucket_bytes);

  [[nodiscard]] std::uint32_t world_size() const { return world_size_; }
  // A fresh sync block. In the parent, before the ranks of that generation are forked.
  void begin_generation();

  enum class mapping { own, shared };
  // On the thread of the rank. `own`: as in production, by descriptors. `shared`: the mappings of
  // this object.
  result<std::unique_ptr<communicator>> try_join(std::uint32_t rank, mapping how = mapping::own,
                                                 std::chrono::nanoseconds timeout = 0ns,
                                                 std::size_t generation = 0);
  // Joins with these memories as the generation and rank of `membership`, on the last block.
  result<std::unique_ptr<communicator>> try_join_as(shm_membership membership);
  std::unique_ptr<communicator> join(std::uint32_t rank, mapping how = mapping::own);

  [[nodiscard]] std::span<std::byte> bucket(std::uint32_t rank) { return buckets_[rank].bytes(); }
  template <class T>
  T* bucket_as(std::uint32_t rank, std::uint64_t offset_bytes = 0) {
    return reinterpret_cast<T*>(buckets_[rank].data() + offset_bytes);
  }

 private:
  std::uint32_t world_size_;
  std::vector<storage::shared_memory> buckets_;
  std::vector<storage::shared_memory> sync_blocks_;  // by generation, the first is 1
};

// A T that the test and its forked ranks share; zero-filled, so T starts as all zeros.
template <class T>
class shared_object {
 public:
  shared_object() : memory_(*storage::shared_memory::create("ftrt-test", sizeof(T))) {}
  T* operator->() { return reinterpret_cast<T*>(memory_.data()); }
  T& operator*() { return *reinterpret_cast<T*>(memory_.data()); }

 private:
  storage::shared_memory memory_;
};

// An event between processes: some raise it, some wait for that many.
class signal_pipe {
 public:
  signal_pipe();
  ~signal_pipe();
  signal_pipe(const signal_pipe&) = delete;
  signal_pipe& operator=(const signal_pipe&) = delete;

  void raise(std::uint32_t times = 1);
  [[nodiscard]] bool wait(std::uint32_t times = 1, std::chrono::milliseconds deadline = 20s);

 private:
  int read_ = -1;
  int write_ = -1;
};

[[nodiscard]] std::int64_t now_ns();  // CLOCK_MONOTONIC, the same in all processes

// The environment's FTRT_TEST_SEED, else a fresh one; prints it.
[[nodiscard]] std::uint64_t test_seed();

}  // namespace ftrt::tests
