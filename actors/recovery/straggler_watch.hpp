#pragma once

#include <actors/recovery/starvation.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ftrt/types.hpp>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace ftrt::recovery {

struct straggler_limits {
  double factor = 2;  // times the others' compute time
  // ... and longer than it by this: below, nobody is called slow, however short the iterations are.
  std::chrono::nanoseconds floor = std::chrono::milliseconds{5};
  // A window is at least so long and has at least so many iterations.
  std::chrono::nanoseconds window = std::chrono::seconds{1};
  std::size_t iterations = 8;
  std::uint32_t windows = 3;  // in a row to be named, and to be so no more
  // After a replacement: so many windows in a row must be in order before it counts as a help;
  // after each further one twice as many, up to the last figure.
  std::uint32_t probation = 60;
  std::uint32_t longest_probation = 3840;
};

// What is known of a rank that computes much slower than the others.
struct straggler {
  rank_id rank;
  std::chrono::nanoseconds compute{};  // of an iteration, in the newest window
  std::chrono::nanoseconds others{};   // what the same share takes the others
  iteration_id since;                  // it has been so from here
  bool replaced = false;               // a new process has not helped: it is only to be reported

  friend bool operator==(const straggler&, const straggler&) = default;
};

// Finds ranks whose forward and backward take much longer than those of the others: which the times
// of whole iterations cannot show, as all wait for the slowest in each collective (C07). Pure: no
// CAF, no clock, no descriptor; lives with its supervisor. Bounded memory.
//
// A window is a second of one generation or longer. In it a rank's figure is the median of its
// compute times, or their mean less the time that its training thread wanted a processor and got
// none, if that is less: neither a long stall nor a machine that others load makes a straggler. It
// is out of line where its figure is `factor` times what the same share takes the others (of their
// medians, for a micro-batch, the median), and `floor` longer; one that is so for `windows` in a
// row is named. (A multiple of the median of the others is the rule of Spark's speculative
// execution, spark.speculation.multiplier.)
//
// candidate() is who may be replaced: one of those that are named, that has been slow for `windows`
// in a row in this very generation, and that a new process may still help. Who has replaced it says
// so with replaced(). A rank that is named again before its `probation` is over was not helped:
// from then on it is told as `replaced`, and is no candidate, until it is in order for as long. So
// nobody is replaced again and again because of its data, its share or its place.
//
//   straggler_watch watch{limits, {1, 1, 1}};
//   watch.begin(generation);
//   watch.add(rank, generation, iteration, compute);   // of all ranks
//   if (watch.is_due(now)) for (const auto& s : watch.judge(now, uses).named) report(s);
class straggler_watch {
 public:
  // `shares`: how many micro-batches of a full window each rank has.
  straggler_watch(straggler_limits limits, std::vector<std::uint64_t> shares);

  // What the watch knows of iterations of another generation is forgotten; who was named stays.
  void begin(generation_id generation, time_point now);
  // Ignored: another generation, a rank outside the world, an iteration twice or judged already.
  void add(rank_id rank, generation_id generation, iteration_id iteration,
           std::chrono::nanoseconds compute);

  // A window has passed: judge() wants to know what processors the ranks had.
  [[nodiscard]] bool is_due(time_point now) const;

  struct judgement {
    std::vector<straggler> named;     // from now on
    std::vector<straggler> restored;  // no longer
  };
  // `uses`: one for each rank, as of now; unknown ones excuse nothing.
  [[nodiscard]] judgement judge(time_point now, std::span<const std::optional<processor_use>> uses);

  // A new process takes this rank's place because it was named.
  void replaced(rank_id rank);

  // Who is out of line at present, and what an iteration's computing takes each rank (0: not
  // known).
  [[nodiscard]] std::vector<straggler> current() const;
  // The slowest of those that may be replaced.
  [[nodiscard]] std::optional<straggler> candidate() const;
  [[nodiscard]] std::vector<std::chrono::nanoseconds> compute_times() const;

 private:
  static constexpr std::size_t max_open = 4096;  // iterations in a window

  struct track {
    std::uint64_t share = 1;
    starvation starved;
    std::optional<std::chrono::nanoseconds> starved_before;  // as of the last judgement
    std::chrono::nanoseconds compute{};                      // an iteration's, in the last window
    std::uint32_t slow = 0;                                  // windows in a row
    std::uint32_t fine = 0;
    bool is_named = false;
    bool on_probation = false;
    std::uint32_t probation = 0;  // windows; 0: it was never replaced
    straggler said;
  };
  using times = std::vector<std::chrono::nanoseconds>;  // by rank; negative: not known yet

  [[nodiscard]] std::size_t whole() const;
  [[nodiscard]] std::vector<double> figures(std::span<const std::optional<processor_use>> uses,
                                            time_point now);
  void close_window(time_point now);
  void settle(track& of, bool is_slow, judgement& found) const;

  straggler_limits limits_;
  std::vector<track> tracks_;
  generation_id generation_;
  time_point begun_{};   // of the window
  iteration_id judged_;  // iterations up to here are done with
  std::map<iteration_id, times> open_;
};

}  // namespace ftrt::recovery
