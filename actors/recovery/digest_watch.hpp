#pragma once

#include <cstdint>
#include <ftrt/types.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ftrt::recovery {

// Compares the digests that the ranks of one generation wrote of their states. Pure: no actor, no
// clock, no memory of another process. Fed in any order, rank by rank; bounded whatever it is fed.
//
//   digest_watch watch{3};
//   watch.begin(generation_id{4});
//   watch.add(rank_id{0}, generation_id{4}, iteration_id{100}, "a");   // ... and of the others
//   if (const auto verdict = watch.judge()) { if (verdict->agreed()) ... }
class digest_watch {
 public:
  static constexpr std::size_t max_open = 8192;  // iterations that wait for a rank's digest

  explicit digest_watch(std::uint32_t world_size) : world_size_(world_size) {}

  // What is known of another generation is forgotten.
  void begin(generation_id generation);
  [[nodiscard]] generation_id generation() const { return generation_; }

  // Ignored: another generation, a rank outside the world, a second word of the same rank, an
  // iteration that was judged already.
  void add(rank_id rank, generation_id generation, iteration_id iteration, std::string digest);

  struct verdict {
    enum class kind : std::uint8_t {
      agreed,  // all ranks hold one state
      odd,     // `ranks` differ from the majority
      split,   // no majority: nobody can be named
    };
    kind what = kind::agreed;
    iteration_id iteration;
    std::vector<rank_id> ranks;
  };
  // The oldest divergence among the iterations of which every rank has spoken, else the newest
  // agreement that has not been told yet. Iterations before it are done with; one that lacks a
  // rank's word is passed over.
  struct judgement {
    std::optional<verdict> agreed;
    std::optional<verdict> diverged;
  };
  [[nodiscard]] judgement judge();

 private:
  using words = std::vector<std::string>;  // by rank; empty: not spoken
  [[nodiscard]] verdict judge_one(iteration_id iteration, const words& said) const;

  std::uint32_t world_size_;
  generation_id generation_;
  iteration_id judged_;  // the newest one that all spoke of
  std::map<iteration_id, words> open_;
};

}  // namespace ftrt::recovery
