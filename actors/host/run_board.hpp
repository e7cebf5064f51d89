#pragma once

#include <cstdint>
#include <ftrt/run.hpp>
#include <ftrt/status.hpp>
#include <ftrt/summary.hpp>
#include <ftrt/types.hpp>
#include <mutex>
#include <optional>
#include <schemas/protocol/messages.hpp>
#include <set>
#include <storage/progress.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt::host {

// Where a run stands, for whoever asks: what a new run_supervisor or metrics actor takes over, what
// the progress line shows, and what the summary is made of. Any thread; every call is short.
class run_board {
 public:
  run_board(std::string run_id, std::uint32_t world_size, std::uint64_t total_iterations,
            std::uint64_t iterations_per_epoch);

  // The generation and branch in force, for the next run_supervisor.
  struct membership {
    generation_id generation;
    branch_id branch;
    generation_id branch_since;  // the generation that opened the branch
    iteration_id from;           // where the generation began
  };
  void set_membership(membership now);
  // A resumed run: what was committed before.
  void begin_at(iteration_id iteration);
  // A resumed run: the newest iteration known of before. What the first generation begins behind is
  // lost.
  void died_at(iteration_id iteration);
  [[nodiscard]] membership current() const;

  // One record of a rank's ring, the first of its iteration. False: older than what was counted
  // already in this branch of history (another rank's copy), so not news; or past the run's end.
  bool count(const storage::progress_record& record);
  // History past `iteration` is void, and so is what generations before `generation` still report.
  // `reached`: the newest commit of it, which counts as executed.
  void roll_back_to(iteration_id iteration, generation_id generation, iteration_id reached);
  // Committed iterations that one of the rollbacks undid, at most.
  [[nodiscard]] std::uint64_t most_lost() const;
  // Grows with every rollback.
  [[nodiscard]] std::uint64_t rollbacks() const;
  // The iteration at work was abandoned and is done again.
  void count_redone();

  // A window that all ranks leave out.
  void add_left_out(iteration_id iteration);
  [[nodiscard]] std::vector<iteration_id> left_out() const;  // ascending

  void add(recovery_record recovery);
  void add(actor_restart_record restart);
  // Is this iteration of this branch part of history, as far as is known without the catalog?
  [[nodiscard]] bool is_history(branch_id branch, iteration_id iteration) const;
  // A checkpoint became durable, in so many milliseconds. Counts as the newest only where it is
  // part of history: the disk may come to one after a rollback that took it back.
  void set_checkpoint(branch_id branch, iteration_id iteration, double ms);
  [[nodiscard]] double last_checkpoint_ms() const;
  [[nodiscard]] std::uint64_t last_checkpoint_iteration() const;
  // All ranks held one state at this iteration. A rollback takes it back.
  void set_agreed(iteration_id iteration);
  [[nodiscard]] iteration_id agreed() const;
  // While a recovery looks for a state to go back to: nothing past this iteration is to be
  // believed.
  void set_disputed(std::optional<iteration_id> not_beyond);
  [[nodiscard]] std::optional<iteration_id> disputed() const;
  void set_ranks_alive(std::uint32_t ranks);
  void set_finished(const protocol::finished& report);

  // Where the supervisor stands: "training", "gathering", ...
  void set_phase(std::string_view phase);
  [[nodiscard]] std::string phase() const;
  // What computing takes each rank (0: not known), and who is much slower than the others.
  struct speeds {
    std::vector<double> compute_ms;
    std::vector<straggler_status> stragglers;
  };
  void set_speed(speeds now);
  [[nodiscard]] speeds speed() const;

  // A request to stop is kept here, so that a new run_supervisor knows of it.
  void request_stop(std::string reason);
  [[nodiscard]] std::optional<std::string> stop_reason() const;

  [[nodiscard]] progress latest() const;
  [[nodiscard]] std::uint64_t last_iteration() const;
  // Everything but status, error and wall time, which the end of the run knows.
  [[nodiscard]] run_summary summary() const;

 private:
  [[nodiscard]] double samples_per_second() const;
  [[nodiscard]] std::uint64_t last_checkpoint() const;
  [[nodiscard]] bool is_history_locked(branch_id branch, iteration_id iteration) const;

  mutable std::mutex mutex_;
  run_summary summary_;
  membership membership_;
  struct branch_point {
    branch_id opened;
    iteration_id from;  // of older branches, nothing past it is history
  };
  std::vector<branch_point> branches_;
  std::set<std::uint64_t> checkpoints_;  // iterations of this process's, in the history that stands
  progress latest_;
  std::uint64_t iterations_per_epoch_;
  std::uint64_t executed_ = 0;   // iterations, those that were undone or redone included
  std::uint64_t committed_ = 0;  // iterations that this process saw committed and not undone
  std::uint64_t samples_ = 0;    // of the committed ones
  std::uint64_t evaluated_ = 0;  // iteration of the last evaluation that was counted
  std::uint64_t counted_ = 0;    // newest iteration whose record was counted
  std::uint64_t oldest_generation_ = 0;  // records of older ones are void ...
  std::uint64_t rolled_back_to_ = 0;     // ... beyond this iteration
  std::uint64_t rollbacks_ = 0;
  std::uint64_t most_lost_ = 0;
  std::optional<std::uint64_t> died_at_;
  std::optional<std::int64_t> first_begun_ns_;
  std::int64_t last_committed_ns_ = 0;
  double last_checkpoint_ms_ = 0;
  iteration_id agreed_;
  std::optional<iteration_id> disputed_;
  std::optional<std::string> stop_reason_;
  std::string phase_ = "starting";
  speeds speed_;
};

}  // namespace ftrt::host
