#pragma once

#include <actors/control/context.hpp>
#include <actors/host/worker_host.hpp>
#include <caf/fwd.hpp>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <vector>

namespace ftrt::actors::testing {

// Where a worker falls silent: it does what leads there and never says the word.
enum class word { none, hello, parked, joined, commit, finished };

// Workers that are data: they answer control as real ones do, with real progress pages and
// snapshots, and have no process. What they say and what becomes of them waits in `pending` until
// the one thread of the test does it, so that a run takes the same way each time.
//
// All of them commit together, an iteration each `step` of control's clock. State is a function of
// the iteration alone.
class imitated_workers final : public host::worker_host {
 public:
  struct order {
    rank_id rank;
    incarnation_id incarnation;
    std::chrono::nanoseconds at{};
  };

  explicit imitated_workers(std::uint64_t total_iterations);

  std::chrono::nanoseconds step = std::chrono::milliseconds{10};  // an iteration
  // What each rank's share of it takes, by its own account.
  std::function<std::chrono::nanoseconds(rank_id, incarnation_id)> compute;

  void serve(const run_context& context) { context_ = &context; }
  std::deque<std::function<void()>> pending;
  // Time has passed: those that train may commit.
  void work();

  // ---- what a test does to them
  // ------------------------------------------------------------------- On purpose: no batch is to
  // blame.
  void die(rank_id rank, const std::string& cause);
  // The rank's newest worker never says this word; `all`: nor do its successors.
  void silence(rank_id rank, word at, bool all = false);
  void refuse_to_start(rank_id rank, bool refuse);
  // Each order of a worker so far.
  [[nodiscard]] const std::vector<order>& orders() const { return orders_; }
  [[nodiscard]] std::uint64_t committed() const { return committed_; }
  [[nodiscard]] bool had_state_lost() const { return lost_state_; }

  // ---- worker_host
  // --------------------------------------------------------------------------------
  [[nodiscard]] const protocol::zygote_ready& program() const override { return program_; }
  void spawn_worker(rank_id rank, incarnation_id incarnation) override;
  bool kill_worker(rank_id rank, incarnation_id incarnation, const std::string& cause) override;
  bool injure(rank_id rank, const std::string& cause) override;
  bool stop_worker(rank_id) override { return false; }
  void note_struck(rank_id, incarnation_id, bool) override {}
  bool kill_zygote() override { return false; }
  [[nodiscard]] std::shared_ptr<const host::worker_entry> worker(rank_id rank) const override;
  [[nodiscard]] std::shared_ptr<const host::worker_entry> worker(
      rank_id rank, incarnation_id incarnation) const override;
  [[nodiscard]] incarnation_id newest_incarnation(rank_id rank) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const host::worker_entry>> workers() const override;
  [[nodiscard]] std::uint32_t alive() const override;
  [[nodiscard]] std::vector<pid_t> warm_spares() const override { return {}; }
  [[nodiscard]] pid_t zygote_pid() const override { return 1; }
  [[nodiscard]] host::state_shelf& shelf() override { return shelf_; }
  [[nodiscard]] result<unique_fd> open_control_socket(rank_id rank,
                                                      incarnation_id incarnation) override;
  [[nodiscard]] result<void> send_joins(const std::vector<protocol::join>& joins) override;

  // The trainer of such a worker: without a socket. `context.host` must be imitated_workers.
  [[nodiscard]] static trainer_actor make_trainer(caf::actor_system& system,
                                                  const run_context& context, rank_id rank,
                                                  incarnation_id incarnation, unique_fd socket);
  // Its trainer's side.
  void hear(rank_id rank, incarnation_id incarnation, const protocol::message& message);
  void connected(rank_id rank, incarnation_id incarnation);

 private:
  using key = std::pair<rank_id, incarnation_id>;
  struct body {
    std::shared_ptr<host::worker_entry> entry;
    std::optional<storage::progress_writer> page;
    std::optional<storage::snapshot_writer> slots;
    word silent_at = word::none;
    protocol::worker_phase phase = protocol::worker_phase::starting;
    generation_id generation;
    generation_id revoked;
    branch_id branch;
    iteration_id committed;
    bool has_state = false;
    bool stop = false;
    std::uint32_t hellos = 0;
    std::optional<protocol::finished> report;
  };

  [[nodiscard]] body* find(rank_id rank, incarnation_id incarnation);
  [[nodiscard]] body* newest(rank_id rank);
  void make_body(rank_id rank, incarnation_id incarnation);
  void say(const body& of, word which, protocol::message message);
  void say_hello(body& of);
  void revoke(body& of, generation_id generation);
  void enter(body& of, const protocol::join& join);
  void commit(body& of, iteration_id iteration);
  void finish(body& of);
  void write_snapshot(body& of, bool final);
  void bury(rank_id rank, incarnation_id incarnation, const std::string& cause);

  const run_context* context_ = nullptr;
  protocol::zygote_ready program_;
  host::state_shelf shelf_;
  std::map<key, body> bodies_;
  std::map<rank_id, incarnation_id> ordered_;
  std::map<rank_id, word> always_silent_;
  std::set<rank_id> refusing_;
  std::vector<order> orders_;
  std::uint64_t committed_ = 0;
  bool lost_state_ = false;  // somebody was told to begin again behind what was committed
  std::chrono::nanoseconds next_commit_{};
};

}  // namespace ftrt::actors::testing
