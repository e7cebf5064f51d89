#pragma once

#include <actors/recovery/machine.hpp>
#include <actors/recovery/starvation.hpp>
#include <actors/recovery/step_times.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <storage/progress.hpp>
#include <string>
#include <vector>

namespace ftrt::recovery {

// The [supervision] of a scenario that is about hangs.
struct watch_limits {
  bool enabled = true;
  // A step may take `factor` times what the run's own steps take of late, at least `floor`.
  std::chrono::nanoseconds floor = std::chrono::milliseconds{500};
  double factor = 20;
  // The same before the run's own steps are known, and in phases that have a bound of their own.
  // `evaluate` is less once the run's own evaluations are known, `save` where little is saved.
  std::chrono::nanoseconds first = std::chrono::minutes{1};
  std::chrono::nanoseconds join = std::chrono::seconds{10};
  std::chrono::nanoseconds load = std::chrono::minutes{1};
  std::chrono::nanoseconds evaluate = std::chrono::minutes{1};
  std::chrono::nanoseconds save = std::chrono::minutes{1};
  std::uint64_t state_bytes = 0;  // what a rank saves
  // What passes between two looks where control is on time.
  std::chrono::nanoseconds interval = std::chrono::milliseconds{20};
};

// What is known of one rank at a look; `page` may be anything, a worker wrote it.
struct sighting {
  bool alive = false;
  storage::progress_view page;
  // Of its training thread; wanted where wants_processor_use() says so, and may be unknown there.
  std::optional<processor_use> processor;
};

// What a look comes to. All empty: nobody hangs.
struct findings {
  struct culprit {
    rank_id rank;
    std::string reason;  // "made no progress for 520 ms in compute of iteration 77 (limit 500 ms)"
  };
  std::vector<culprit> culprits;     // to be killed
  std::optional<std::string> stuck;  // nobody is to blame: the communicator is to be made anew
  std::vector<culprit> starved;  // waits for a processor: to be told of, at ever longer intervals
};

// Finds ranks that hang. Pure: no CAF, no clock, no descriptor; it is shown the progress pages at
// each tick of control and remembers when it saw them change last. Lives with its supervisor.
//
// - What counts is progress of the training thread, as seen by control's own monotonic clock; what
//   a page says the time is counts for nothing.
// - A rank that waits for its peers is told from one that hangs by its word that it still waits,
//   which its training thread repeats while it does. Where a communicator cannot say so, those who
//   wait in a collective are spared as long as there is anybody else to blame.
// - Time in which control itself did not look (it was stopped, the machine slept or was
//   overloaded) is nobody's fault and does not count. Nor does time in which a training thread
//   wanted a processor and the machine gave it none.
// - It rests while membership changes: all waits of the machine have deadlines of their own.
//
//   progress_watch watch{limits};
//   for (const auto& c : watch.look(now, machine.current(), sightings).culprits) kill(c.rank);
class progress_watch {
 public:
  explicit progress_watch(watch_limits limits) : limits_(limits) {}

  // `seen` has one entry for each rank. `now` is monotonic and does not run backwards.
  [[nodiscard]] findings look(time_point now, const state& group, std::span<const sighting> seen);

  // Whether a rank whose page is this one has been without progress for a while.
  [[nodiscard]] bool wants_processor_use(rank_id rank, const storage::progress_view& page) const;

  // How long a step may take at present.
  [[nodiscard]] std::chrono::nanoseconds step_limit() const;
  [[nodiscard]] std::chrono::nanoseconds save_limit() const;
  [[nodiscard]] std::chrono::nanoseconds evaluation_limit() const;

 private:
  static constexpr std::chrono::seconds starved_for_long{10};
  // A moment of a rank: in time that was watched, in time that passed, and in time that it was
  // starved by then, which is filled in with the first look that knows.
  struct moment {
    time_point watched{};
    time_point passed{};
    std::optional<std::chrono::nanoseconds> starved;
  };
  // When a rank's page was last seen to change.
  struct track {
    std::int64_t progress_ns = 0;
    std::int64_t waiting_ns = 0;
    storage::train_phase at = storage::train_phase::starting;
    moment progressed;
    moment gave_sign;  // progress, or word that it waits
    starvation starved;
    std::chrono::nanoseconds tell_at = starved_for_long;  // of being starved, since it progressed
  };
  struct period {  // one stretch of joining or training of one generation
    phase at = phase::idle;
    generation_id generation;
    friend bool operator==(const period&, const period&) = default;
  };

  void pass_time(time_point now);
  void begin_period(const period& next, std::span<const sighting> seen);
  void note(std::span<const sighting> seen);
  [[nodiscard]] moment here() const { return {watched_, *last_look_, std::nullopt}; }
  // For how long since then it could have made progress and control would have seen it.
  [[nodiscard]] std::chrono::nanoseconds silence(const track& t, const moment& since) const;
  void tell_starved(findings& found, const state& group, std::span<const sighting> seen);
  void learn(const state& group, std::span<const sighting> seen);
  void learn_of_evaluation(const track& t, const sighting& s);
  [[nodiscard]] bool waits_are_told(std::span<const sighting> seen) const;
  [[nodiscard]] std::chrono::nanoseconds limit_of(const member& m, const sighting& s) const;
  // Ranks with something to do that have given no sign for this share of their limits.
  [[nodiscard]] std::vector<rank_id> silent_for(double share, const state& group,
                                                std::span<const sighting> seen) const;
  [[nodiscard]] std::vector<rank_id> blame(const state& group,
                                           std::span<const sighting> seen) const;
  [[nodiscard]] std::vector<rank_id> behind(const std::vector<rank_id>& silent, const state& group,
                                            std::span<const sighting> seen) const;
  [[nodiscard]] bool all_wait(const state& group, std::span<const sighting> seen) const;
  void escalate(findings& found, const state& group, std::span<const sighting> seen);
  void accuse(findings& found, rank_id rank, const state& group, std::span<const sighting> seen,
              const std::string& how) const;

  watch_limits limits_;
  step_times steps_;
  // The longest time without progress in an evaluation that got on, and whether one has ended.
  std::chrono::nanoseconds evaluation_gap_{};
  bool has_evaluated_ = false;
  std::optional<time_point> last_look_;
  time_point watched_{};  // time that passed while control looked
  period period_;
  std::vector<track> tracks_;
  std::optional<iteration_id> committed_;  // newest of this period, and since when
  time_point committed_at_{};
  bool committed_here_ = false;  // this generation has committed an iteration
  iteration_id stuck_at_;        // newest commit when nobody was to blame
  std::uint32_t stuck_ = 0;      // ... and how often that was so
};

}  // namespace ftrt::recovery
