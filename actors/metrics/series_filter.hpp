#pragma once

#include <cstdint>
#include <ftrt/types.hpp>
#include <map>
#include <string>
#include <string_view>

namespace ftrt::metrics {

// Keeps each tag one strictly increasing series of steps, whatever recoveries do. Pure.
//
// Points arrive twice (every rank keeps a diary of the same iterations), late (a dead rank's diary
// is read after its successor began) and again (iterations redone after a rollback). The first two
// are refused; the third is what rollback() is for.
//
//   series_filter filter{iteration_id{1}};
//   if (filter.admit("train/loss", generation, step)) writer.add(...);
//   ...
//   filter.rollback(generation_id{3}, iteration_id{101});  // and writer.restart(iteration_id{101})
//
// Invariant: the admitted steps of a tag, with those at and beyond each rollback's first step taken
// away by that rollback, strictly increase. Bounded: at most `max_tags` tags; more are refused.
class series_filter {
 public:
  static constexpr std::size_t max_tags = 256;

  // `first_step`: the smallest step that this series may begin with (a resumed run's first
  // iteration to do).
  explicit series_filter(iteration_id first_step);

  // Whether the point belongs into the series; if so it counts as written. `generation`: the one
  // that committed the step.
  [[nodiscard]] bool admit(std::string_view tag, generation_id generation, iteration_id step);

  // History at `first_step` and beyond is void; `generation` is the first one that writes it anew.
  // A point from an older generation for such a step is refused from now on.
  void rollback(generation_id generation, iteration_id first_step);

  // Points refused so far.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  [[nodiscard]] bool is_voided(generation_id generation, iteration_id step) const;
  [[nodiscard]] bool refuse();

  iteration_id first_step_;
  std::map<std::string, iteration_id, std::less<>> newest_;  // by tag
  // By generation: the first void step for every generation below the key.
  std::map<generation_id, iteration_id> void_from_;
  std::uint64_t refused_ = 0;
};

}  // namespace ftrt::metrics
