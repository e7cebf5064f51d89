#pragma once

#include <cstdint>
#include <ftrt/error.hpp>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <functional>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/state_layout.hpp>
#include <storage/shared_memory.hpp>
#include <string>
#include <variant>
#include <vector>

namespace ftrt {

struct worker_memory;

// Model, data and layout of a scenario, loaded once in the zygote and inherited by every worker
// that is forked from it. Nothing here knows of ranks. One thread.
class training_program {
 public:
  // Opens and checks the data, builds the model with the initial weights of `run.seed`, lays the
  // state arena and the gradient buckets out. Every fault of model and data is a diagnostic.
  [[nodiscard]] static checked<std::unique_ptr<training_program>> create(const scenario& values);
  ~training_program();

  [[nodiscard]] const scenario& values() const;
  [[nodiscard]] const state_layout& layout() const;
  [[nodiscard]] std::uint64_t bucket_bytes() const;  // of one rank, control regions included
  [[nodiscard]] std::uint64_t train_samples() const;
  [[nodiscard]] std::uint64_t test_samples() const;
  [[nodiscard]] std::uint64_t iterations_per_epoch() const;
  [[nodiscard]] std::uint64_t total_iterations() const;

  // One forward, backward and optimizer step on scratch memory, so that forked workers start with
  // warm kernels and allocator. Leaves weights, buffers and generators as they were, and starts no
  // thread.
  void warm_up();
  // The same in a worker that waits for its rank, on the memories it will train in, every page of
  // which it touches. What it leaves there is no state. Any one thread; throws what the model does.
  void warm_up(const worker_memory& memory);

  // How often a rank may digest its state so that it costs under 1 % of its steps, as the warm-up
  // measured; what the scenario says where it says something. 0: nothing was measured.
  [[nodiscard]] std::uint64_t digest_every() const;

  struct impl;
  [[nodiscard]] impl& get() { return *impl_; }

 private:
  explicit training_program(std::unique_ptr<impl> impl);
  std::unique_ptr<impl> impl_;
};

// The memories of one incarnation, created by control (see storage/).
struct worker_memory {
  storage::shared_memory progress;
  storage::shared_memory snapshots;
  storage::shared_memory bucket;  // gradients; the communicator reaches it on every rank
  storage::shared_memory state;   // the state arena; others map it read-only to copy from it
};

// Why train() came back.
struct training_interrupted {  // the communicator was aborted or lost a peer
  error why;
};
struct training_finished {
  protocol::finished report;
};
struct training_failed {  // the user's model or data threw
  iteration_id iteration;
  std::string text;
};
struct training_not_finite {  // loss or gradients, and train.on_non_finite leaves it to control
  iteration_id iteration;
  std::vector<rank_id> ranks;  // whose own share it was
};
using training_outcome =
    std::variant<training_interrupted, training_finished, training_failed, training_not_finite>;

struct trainer_callbacks {
  // A slot was written; called on the training thread, must not block (hand it to the control
  // thread).
  std::function<void(const protocol::snapshot_ready&)> on_snapshot;
};

// The step loop of one rank (DESIGN.md, "One iteration"). Construct, use and destroy on the
// training thread, with a single-threaded ATen; request_stop() and injure() alone may come from any
// thread.
//
//   trainer t{program, memory, rank, incarnation, callbacks};
//   t.join(request, std::move(comm), state_of_source);   // again for each generation
//   training_outcome outcome = t.train();
//   protocol::parked report = t.park();                  // after an interruption
class trainer {
 public:
  trainer(training_program& program, worker_memory memory, rank_id rank, incarnation_id incarnation,
          trainer_callbacks callbacks);
  ~trainer();
  trainer(const trainer&) = delete;
  trainer& operator=(const trainer&) = delete;

  // A join has been ordered and nothing of it is done yet: where a worker that is killed in its
  // start dies.
  void before_join(const protocol::join& request);

  // Becomes a member of the generation: brings the state to request.iteration by its role (see
  // protocol::state_role), then compares digests with all ranks over `comm`, which it keeps.
  // `source_state`: for role receive the source's state memory, for load_snapshot the state that
  // control holds; mapped read-only. Blocks until all
  // ranks are there. On failure the state counts as before where it is untouched (keep), else the
  // rank is stateless.
  [[nodiscard]] result<protocol::joined> join(const protocol::join& request,
                                              std::shared_ptr<communicator> comm,
                                              const storage::shared_memory* source_state);

  // Makes ahead what the next iteration needs and a newcomer does not have yet. While nobody waits
  // for this rank, as after its part in a join.
  void prepare_iteration();

  // Iterates until the end, a stop, or an interruption. Call after join() succeeded on all ranks.
  // At the end: evaluation, final snapshot, then training_finished. At a stop the evaluation is
  // left to whoever resumes the run, also where it is at it.
  [[nodiscard]] training_outcome train();

  // Restores what an abandoned iteration touched and reports where this rank stands: committed,
  // prepared and decided as in protocol::parked. Call once the communicator has failed or been
  // aborted. A prepared iteration's gradients and communicator are kept until the next join().
  [[nodiscard]] protocol::parked park();

  // Sets the stop bit of the next decision word, or gives an evaluation up. Any thread; idempotent.
  void request_stop();

  // What this rank does to itself at that iteration (protocol::injure). Any thread.
  void injure(const protocol::injure& what);

  [[nodiscard]] iteration_id committed() const;
  [[nodiscard]] bool has_state() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace ftrt
