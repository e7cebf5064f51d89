#include <actors/recovery/digest_watch.hpp>
#include <algorithm>
#include <utility>

namespace ftrt::recovery {

void digest_watch::begin(generation_id generation) {
  if (generation == generation_) return;
  generation_ = generation;
  judged_ = {};
  open_.clear();
}

void digest_watch::add(rank_id rank, generation_id generation, iteration_id iteration,
                       std::string digest) {
  if (generation != generation_ || rank.value() >= world_size_ || digest.empty()) return;
  if (iteration <= judged_) return;
  auto& said = open_[iteration];
  said.resize(world_size_);
  if (said[rank.value()].empty()) said[rank.value()] = std::move(digest);
  // Ranks are never further apart than one iteration: what is so old will not be completed.
  if (open_.size() > max_open) open_.erase(open_.begin());
}

digest_watch::judgement digest_watch::judge() {
  judgement found;
  for (const auto& [iteration, said] : open_) {
    if (std::ranges::count(said, std::string{}) > 0) continue;
    judged_ = iteration;
    auto one = judge_one(iteration, said);
    if (one.what != verdict::kind::agreed) {
      found.diverged = std::move(one);
      break;
    }
    found.agreed = std::move(one);
  }
  open_.erase(open_.begin(), open_.upper_bound(judged_));
  return found;
}

digest_watch::verdict digest_watch::judge_one(iteration_id iteration, const words& said) const {
  const auto majority = std::ranges::find_if(said, [&](const std::string& word) {
    return 2 * static_cast<std::size_t>(std::ranges::count(said, word)) > said.size();
  });
  if (majority == said.end()) return {verdict::kind::split, iteration, {}};
  std::vector<rank_id> odd;
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    if (said[rank] != *majority) odd.emplace_back(rank);
  }
  const auto what = odd.empty() ? verdict::kind::agreed : verdict::kind::odd;
  return {what, iteration, std::move(odd)};
}

}  // namespace ftrt::recovery
