#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <functional>
#include <optional>
#include <runtime/communicator/futex.hpp>
#include <runtime/communicator/sync_block.hpp>
#include <span>
#include <utility>
#include <vector>

namespace ftrt::shm {

// This rank's seat in its generation: everything that waits for peers, tells them something, or
// ends the generation goes through here.
//
// Owned by the communicator, used by the training thread that constructed it; abort(), ended(),
// lost() and await_end() may be called from any thread. A generation ends once and for all: by
// abort(), by a rank that died, by a rank that left while it was needed, or by a wait that timed
// out.
class peers {
 public:
  // Takes the seat. Refuses a block of another generation or world size (stale_generation) and a
  // seat that is taken (busy).
  [[nodiscard]] static result<peers> take_seat(sync_block block, generation_id generation,
                                               rank_id rank, std::chrono::nanoseconds timeout);
  peers(peers&& other) noexcept;
  peers& operator=(peers&&) = delete;
  // Leaves the seat: peers that still need this rank get `aborted`. On the thread that took it.
  ~peers();

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const { return block_.world_size(); }
  [[nodiscard]] const sync_block& block() const { return block_; }
  [[nodiscard]] rank_area& mine() const { return block_.area(rank_); }
  [[nodiscard]] rank_area& area(std::uint32_t rank) const { return block_.area(rank); }

  // Stores a counter of this rank's and wakes who sleeps for this rank.
  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value);

  // Blocks until `counter`, which `peer` publishes, is at least `value`. What has been reached
  // succeeds even in a generation that has ended since, until a call of this rank has failed.
  [[nodiscard]] result<void> await(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                                   std::uint64_t value);

  // Called before each sleep of await(), on the thread that waits.
  void on_wait(std::function<void()> beat) { beat_ = std::move(beat); }

  // Fails once the generation has ended; does not block. Asked at the start of each call.
  [[nodiscard]] result<void> check();
  [[nodiscard]] bool ended() const;

  // Blocks until the generation has ended or `stop` is no longer 0. Who finds a peer dead ends the
  // generation with it. Any thread; the seat must not be moved meanwhile. Returns at once where the
  // kernel cannot sleep on several words (can_sleep_on_several()).
  void await_end(const std::atomic<std::uint32_t>& stop) const;

  // Ends the generation because of `why`, for the peers too; every later call fails with it.
  [[nodiscard]] tl::unexpected<error> end_with(error why);
  void abort() noexcept { end(ended_by_abort); }

  [[nodiscard]] std::vector<rank_id> lost() const;

 private:
  peers(sync_block block, std::uint32_t rank, std::chrono::nanoseconds timeout);

  enum class look { waiting, reached, over };
  look look_at(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
               std::uint64_t value) const;
  look spin(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
            std::uint64_t value) const;
  look sleep_once(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                  std::uint64_t value, steady_time until) const;
  std::size_t words_of_loss(std::span<awaited_word> words,
                            const std::atomic<std::uint32_t>& first) const;
  [[nodiscard]] tl::unexpected<error> give_up(std::uint32_t peer);
  [[nodiscard]] std::uint64_t dead() const;
  void end(std::uint32_t reason) const noexcept;

  sync_block block_;
  std::uint32_t rank_;
  std::chrono::nanoseconds timeout_;
  bool may_spin_;
  bool seated_ = true;
  std::function<void()> beat_;
  std::optional<error> failure_;  // what every call answers from now on
};

}  // namespace ftrt::shm
