#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <span>
#include <string>
#include <vector>

namespace ftrt::training {

// What one rank says before an iteration is applied. Bit patterns cross the ranks, so there is no
// padding. Fixed size for communicator::exchange.
struct control_word {
  std::uint64_t iteration = 0;
  std::uint32_t found_inf = 0;
  std::uint32_t flags = 0;  // flag_*
  double grad_norm = 0;
  double loss_sum = 0;  // of this rank's samples
  std::uint64_t samples = 0;
};
inline constexpr std::uint32_t flag_stop = 1;
inline constexpr std::uint32_t flag_snapshot = 2;
inline constexpr std::uint32_t flag_not_finite = 4;  // this rank's own gradients, before reduction
inline constexpr std::uint32_t flag_left_out = 8;    // the window was not computed

// What all ranks do with an iteration: a pure function of their words in rank order, so that every
// rank that can read the words decides the same, also after the communicator was aborted.
struct decision {
  bool divergent = false;  // gradients differ between ranks: somebody computes wrongly
  bool skip = false;       // not finite, or left out: no optimizer step
  bool bad_loss = false;   // the loss itself is NaN or infinite
  bool left_out = false;   // the window was not computed, so that there is nothing to apply
  bool stop = false;
  bool snapshot = false;
  double grad_norm = 0;
  double loss = 0;  // mean over the window
  std::uint64_t samples = 0;
  std::vector<rank_id> not_finite;  // whose own share was not, as far as they looked
};
[[nodiscard]] decision decide(std::span<const control_word> words);

// Whether the ranks leave the iteration to control instead of applying it. An overflow that the
// loss scaler of fp16 can still answer (finite loss, a scale above 1) is no reason: it is skipped
// under every policy.
[[nodiscard]] bool leaves_iteration(const decision& decided, non_finite_policy policy, amp_mode amp,
                                    double loss_scale);

// The loss scaler's state: torch.amp.GradScaler, growth 2, backoff 0.5.
struct scaler_state {
  double scale = 1;
  std::int64_t growth_tracker = 0;
  friend bool operator==(const scaler_state&, const scaler_state&) = default;
};
[[nodiscard]] scaler_state update_scaler(scaler_state now, bool found_inf,
                                         std::uint64_t growth_interval);

struct evaluation_word {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t samples = 0;
  std::int64_t given_up = 0;  // 1: this rank left its share for the sake of a stop
};
// The test set was left undone, so nobody counts what was done of it: the run stops where it is,
// and whoever resumes it evaluates anew. Decided alike by all who can read the words.
[[nodiscard]] bool is_given_up(std::span<const evaluation_word> words);

// What a rank says when it has joined.
struct join_word {
  std::uint64_t iteration = 0;
  std::uint64_t kept = 0;  // 1: a survivor, whose state was right before
  char digest[32] = {};
};

// Ranks whose state is not what it should be: those that differ from the survivors' (or, without
// survivors, everybody's) strict majority; all of them where there is none. Empty: all agree.
[[nodiscard]] std::vector<rank_id> odd_ranks(std::span<const join_word> words);
[[nodiscard]] std::string to_list(std::span<const rank_id> ranks);  // "1,3"

// Keys of communicator::exchange grow within a generation: its join, then for each iteration its
// decision, then the evaluation of what it committed.
[[nodiscard]] constexpr std::uint64_t join_key() {
  return 1;
}
[[nodiscard]] constexpr std::uint64_t decision_key(iteration_id k) {
  return k.value() * 4;
}
[[nodiscard]] constexpr std::uint64_t evaluation_key(iteration_id k) {
  return k.value() * 4 + 1;
}

}  // namespace ftrt::training
