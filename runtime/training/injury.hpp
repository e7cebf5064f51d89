#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ftrt/types.hpp>
#include <mutex>
#include <schemas/protocol/messages.hpp>
#include <schemas/state_layout.hpp>
#include <span>
#include <vector>

// Numbers that go wrong on purpose (chaos kinds nan and flip_bit).
namespace ftrt::training {

// Where in an iteration a number goes wrong.
enum class injury_moment : std::uint8_t {
  before_backward,  // nan in a gradient: what backward adds to it stays NaN, the reduction spreads
                    // it
  before_apply,     // a bit of a reduced gradient, after its norm was compared: this rank alone
  after_commit,     // a parameter
};
[[nodiscard]] injury_moment moment_of(const protocol::injure& what);

// What is still to go wrong. add() from any thread, take() on the training thread: an iteration
// that nothing waits for costs one load.
class injury_box {
 public:
  static constexpr std::size_t capacity = 64;  // then the oldest is forgotten

  void add(const protocol::injure& what);
  // Those due at this moment of iteration `k` (or before it: they came late). Each once.
  [[nodiscard]] std::vector<protocol::injure> take(iteration_id k, injury_moment moment);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::deque<protocol::injure> waiting_;
};

// Carries one out on a flat range of floats laid out as the parameters of `layout`. The element is
// a function of seed and iteration: a random one of all parameters, then the first from there that
// is not zero, since no bit of a gradient that is zero is sure to matter. A flipped bit is one of
// the exponent's lower seven.
void carry_out(const protocol::injure& what, const state_layout& layout, std::span<float> values);

}  // namespace ftrt::training
