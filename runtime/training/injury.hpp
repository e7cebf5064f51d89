#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <mutex>
#include <schemas/protocol/messages.hpp>
#include <schemas/state_layout.hpp>
#include <span>
#include <vector>

// What a worker does to itself on purpose (chaos kinds nan, flip_bit and slow; kill and stop in a
// phase; poison).
namespace ftrt::training {

// Where it happens.
enum class injury_moment : std::uint8_t {
  before_backward,  // nan in a gradient: what backward adds to it stays NaN, the reduction spreads
                    // it
  before_apply,     // a bit of a reduced gradient, after its norm was compared: this rank alone
  after_commit,     // a parameter
  begin,            // slow: from this iteration on
  // Those of protocol::injury_phase.
  all_reduce,
  optimizer,
  snapshot,
  join,
  evaluate,
  start,
  stop,
};
[[nodiscard]] injury_moment moment_of(const protocol::injure& what);

// What is still to happen. add() from any thread, take() on the training thread: an iteration
// that nothing waits for costs one load.
class injury_box {
 public:
  static constexpr std::size_t capacity = 64;  // then the oldest is forgotten

  void add(const protocol::injure& what);
  // Those due at this moment of iteration `k` (or before it: they came late). Each once, also where
  // an order with a number was added again.
  [[nodiscard]] std::vector<protocol::injure> take(iteration_id k, injury_moment moment);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::deque<protocol::injure> waiting_;
  std::deque<std::uint64_t> numbers_;  // of the orders that were added, the newest last
};

// How slow a worker is. Training thread only.
class slowness {
 public:
  // From iteration `k` on, as the order says. A later order replaces the one before.
  void begin(const protocol::injure& what, iteration_id k);
  // Sleeps before a micro-batch of iteration `k`, where it is slow.
  void pause(iteration_id k) const;

 private:
  std::uint64_t delay_ns_ = 0;
  iteration_id until_;  // the first one that is fast again
};

// SIGKILL or SIGSTOP to this process; returns once it is continued.
void strike(const protocol::injure& what);

// Carries one out on a flat range of floats laid out as the parameters of `layout`. The element is
// a function of seed and iteration: a random one of all parameters, then the first from there that
// is not zero, since no bit of a gradient that is zero is sure to matter. A flipped bit is one of
// the exponent's lower seven.
void carry_out(const protocol::injure& what, const state_layout& layout, std::span<float> values);

// Does the batch of iteration `k` kill this rank? A function of the scenario, as a bad sample would
// be one of the data: it does so each time.
[[nodiscard]] bool is_poisoned(const std::vector<chaos_entry>& chaos, rank_id rank, iteration_id k);

}  // namespace ftrt::training
