#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <runtime/training/decision.hpp>

namespace ftrt::training {
namespace {

bool same_state(const join_word& a, const join_word& b) {
  return a.iteration == b.iteration && std::memcmp(a.digest, b.digest, sizeof a.digest) == 0;
}

// The word that more than half of the voters share.
const join_word* strict_majority(std::span<const join_word> words, bool survivors_only) {
  std::size_t voters = 0;
  for (const auto& word : words) voters += !survivors_only || word.kept != 0 ? 1U : 0U;
  for (const auto& candidate : words) {
    if (survivors_only && candidate.kept == 0) continue;
    const auto votes = std::ranges::count_if(words, [&](const join_word& word) {
      return (!survivors_only || word.kept != 0) && same_state(word, candidate);
    });
    if (static_cast<std::size_t>(votes) * 2 > voters) return &candidate;
  }
  return nullptr;
}

}  // namespace

decision decide(std::span<const control_word> words) {
  decision d;
  const auto& first = words.front();
  d.grad_norm = first.grad_norm;
  for (std::size_t r = 0; r < words.size(); ++r) {
    const auto& word = words[r];
    d.skip = d.skip || word.found_inf != 0;
    if ((word.flags & flag_not_finite) != 0 || !std::isfinite(word.loss_sum)) {
      d.not_finite.emplace_back(static_cast<std::uint32_t>(r));
    }
    d.stop = d.stop || (word.flags & flag_stop) != 0;
    d.snapshot = d.snapshot || (word.flags & flag_snapshot) != 0;
    d.left_out = d.left_out || (word.flags & flag_left_out) != 0;
    d.divergent = d.divergent || ((word.flags ^ first.flags) & flag_left_out) != 0;
    d.loss += word.loss_sum;
    d.samples += word.samples;
    d.divergent = d.divergent || word.iteration != first.iteration ||
                  word.found_inf != first.found_inf ||
                  (word.found_inf == 0 && std::bit_cast<std::uint64_t>(word.grad_norm) !=
                                              std::bit_cast<std::uint64_t>(first.grad_norm));
  }
  d.skip = d.skip || d.left_out;
  if (d.samples > 0) d.loss /= static_cast<double>(d.samples);
  d.bad_loss = !std::isfinite(d.loss);
  d.skip = d.skip || d.bad_loss;
  return d;
}

bool leaves_iteration(const decision& decided, non_finite_policy policy, amp_mode amp,
                      double loss_scale) {
  if (policy == non_finite_policy::skip || !decided.skip || decided.left_out) return false;
  return decided.bad_loss || amp != amp_mode::fp16 || loss_scale <= 1;
}

scaler_state update_scaler(scaler_state now, bool found_inf, std::uint64_t growth_interval) {
  if (found_inf) return {now.scale * 0.5, 0};
  const auto good = static_cast<std::uint64_t>(now.growth_tracker) + 1;
  if (good < growth_interval) return {now.scale, static_cast<std::int64_t>(good)};
  // As PyTorch: a scale that would leave float stays.
  const double grown = now.scale * 2;
  return {std::isfinite(static_cast<float>(grown)) ? grown : now.scale, 0};
}

std::vector<rank_id> odd_ranks(std::span<const join_word> words) {
  const bool survivors =
      std::ranges::any_of(words, [](const join_word& word) { return word.kept != 0; });
  const auto* reference = strict_majority(words, survivors);
  std::vector<rank_id> odd;
  for (std::size_t r = 0; r < words.size(); ++r) {
    if (reference == nullptr || !same_state(words[r], *reference)) {
      odd.emplace_back(static_cast<std::uint32_t>(r));
    }
  }
  return odd;
}

bool is_given_up(std::span<const evaluation_word> words) {
  return std::ranges::any_of(words, [](const evaluation_word& word) { return word.given_up != 0; });
}

std::string to_list(std::span<const rank_id> ranks) {
  std::string text;
  for (const auto rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank.value());
  return text;
}

}  // namespace ftrt::training
