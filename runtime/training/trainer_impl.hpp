#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <runtime/training/decision.hpp>
#include <runtime/training/gradient_reducer.hpp>
#include <runtime/training/injury.hpp>
#include <runtime/training/program_impl.hpp>
#include <runtime/training/trainer.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <vector>

namespace ftrt {

// State between calls of one rank's step loop. The methods are spread over iterate.cpp (one
// iteration), evaluate.cpp (test set, snapshots, the end) and join.cpp (recovery).
struct trainer::impl {
  impl(training_program& owner, worker_memory memories, rank_id first_rank,
       incarnation_id incarnation_number, trainer_callbacks calls);
  ~impl();

  // ---- iterate.cpp: DESIGN.md, "One iteration". Each returns the communicator's error; the
  // model's exceptions pass through.
  result<void> iterate(iteration_id k);
  result<void> leave_out_window(const data::data_window& window);
  result<void> decide_and_apply(const data::data_window& window,
                                const training::control_word& word);
  [[nodiscard]] std::uint32_t flags_of(iteration_id k) const;
  result<double> compute(const data::data_window& window);
  void begin_buffers(const data::data_window& window, result<void>& status);
  training::control_word make_word(const data::data_window& window, double loss_sum);
  void apply(const data::data_window& window, const training::decision& decided);
  void apply_buffers(const data::data_window& window, bool skipped);
  void apply_optimizer(float clip, double lr);
  void inspect(const bucket_region& region);
  // What the progress page says of collectives: one is about to begin, all that were begun are
  // done.
  void begin_collective(std::uint64_t bytes);
  void end_collectives();
  void hurt(training::injury_moment moment, iteration_id k);
  void digest_state();
  [[nodiscard]] bool gives_up(const training::decision& decided) const;
  void append_record(const data::data_window& window, const training::decision& decided, double lr,
                     double scale, bool stepped);
  const std::vector<std::uint32_t>& order_of(std::uint64_t epoch);
  [[nodiscard]] data::index_range my_micro_batches(const data::data_window& window) const;

  // ---- evaluate.cpp
  [[nodiscard]] bool evaluation_due() const;
  result<void> evaluate();
  result<training::evaluation_word> evaluate_share();
  void apply_evaluation(std::span<const training::evaluation_word> words);
  result<void> write_snapshot(bool final);
  result<void> write_final_snapshot();
  [[nodiscard]] protocol::finished report(bool stopped) const;
  training_outcome train();

  // ---- join.cpp
  result<protocol::joined> join(const protocol::join& request, std::shared_ptr<communicator> next,
                                const storage::shared_memory* source_state);
  result<void> take_role(const protocol::join& request, const storage::shared_memory* source_state);
  result<void> keep_state(const protocol::join& request);
  result<void> apply_prepared(const protocol::join& request);
  result<void> load_state(const protocol::join& request);
  result<void> load_snapshot(const protocol::join& request,
                             const storage::shared_memory* source_state);
  result<void> receive_state(const protocol::join& request,
                             const storage::shared_memory* source_state);
  result<protocol::joined> compare_digests(const protocol::join& request, bool kept);
  void settle_evaluation();
  void give_up_iteration();
  protocol::parked park();

  [[nodiscard]] iteration_id committed() const {
    return iteration_id{static_cast<std::uint64_t>(state.at(training::whole::iteration))};
  }
  [[nodiscard]] std::span<float> gradients() const {
    return {reinterpret_cast<float*>(memory.bucket.data()),
            program.map.parameter_bytes / sizeof(float)};
  }

  training_program::impl& program;
  worker_memory memory;
  rank_id rank;
  incarnation_id incarnation;
  trainer_callbacks callbacks;
  storage::progress_writer progress;
  storage::snapshot_writer snapshots;
  training::state_view state;
  std::unique_ptr<training::gradient_reducer> reducer;
  std::vector<std::byte> buffers_aside;  // as of the last commit

  std::shared_ptr<communicator> comm;
  generation_id generation;
  branch_id branch;
  std::uint32_t world_size = 1;

  // An iteration has touched the buffers and is not committed.
  bool iteration_open = false;
  // A word was contributed: `comm` can tell whether all did, also after the next generation began.
  struct contribution {
    iteration_id iteration;
    std::shared_ptr<communicator> comm;
    std::uint32_t world_size = 0;
  };
  std::optional<contribution> prepared;    // reduced, unscaled gradients are in the bucket
  std::optional<contribution> evaluation;  // of the committed iteration, not in the state yet

  training::injury_box injuries;
  training::slowness slow;
  bool own_not_finite = false;                    // this rank's gradients of the iteration at work
  std::optional<training_not_finite> not_finite;  // why the iteration at work was left
  std::uint64_t digest_every = 0;
  std::vector<iteration_id> left_out;  // windows of this generation that nobody computes, ascending

  std::uint64_t in_flight = 0;      // collectives that were begun since the last end_collectives()
  std::uint64_t reduced_bytes = 0;  // in the iteration at work

  bool has_state = false;
  bool snapshot_wanted = false;
  bool stop_decided = false;
  std::atomic<bool> stop_requested{false};

  std::vector<std::uint32_t> order;  // of order_epoch
  std::optional<std::uint64_t> order_epoch;
  struct {
    std::int64_t begin_ns = 0;
    std::int64_t compute_ns = 0;
    std::int64_t reduce_ns = 0;
  } times;
};

}  // namespace ftrt
