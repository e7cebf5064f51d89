#pragma once

#include <actors/recovery/digest_watch.hpp>
#include <actors/recovery/machine.hpp>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

// A world around the recovery machine: workers, channels, snapshots in memory, a catalog and
// faults, all drawn from one seed. Virtual time, one thread, no process. What it checks are the
// laws of recovery; a broken one throws law_broken.
namespace ftrt::recovery::sim {

struct law_broken {
  std::string text;
};

// What happens in a world, as a function of these values alone.
struct schedule {
  std::uint64_t seed = 1;
  // Also delays beyond every deadline, lost answers, repeated messages, slots that are damaged,
  // joins and forks that fail for no reason of their own.
  bool noise = true;
  std::optional<std::vector<std::uint64_t>> kept = {};  // only these of the drawn faults, by number
  std::uint32_t ranks = 0;                              // 0: drawn, 2 to 5, now and then 1
  std::uint64_t faults = 0;                             // 0: drawn; only with `ranks`
  bool sabotage = false;  // restored snapshots are wrong: to see that a law is broken
  bool trace = false;
};

// splitmix64
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // 0 .. n-1
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

// One rank's part of a snapshot.
struct snapshot {
  generation_id generation;
  branch_id branch;
  iteration_id iteration;
  std::uint64_t content = 0;
  bool torn = false;      // its digest says so
  bool poisoned = false;  // verifies, and does not load all the same
};

// The parts of one snapshot put together.
struct shelved {
  iteration_id iteration;
  std::uint64_t content = 0;
  bool poisoned = false;
};

struct worker {
  rank_id rank;
  incarnation_id incarnation;
  bool alive = false;
  bool forked = false;
  bool deaf = false;          // hangs: answers nothing, contributes nothing
  bool of_poison = false;     // died of a window of data
  std::uint64_t link = 0;     // which trainer it has: what is under way on an older one is lost
  std::uint64_t content = 0;  // of its state: a function of the commits that made it
  std::vector<snapshot> snapshots;  // the last three; they outlive it
  protocol::worker_phase phase = protocol::worker_phase::starting;
  generation_id generation;
  generation_id revoked;
  iteration_id committed, prepared;
  generation_id prepared_in;
  bool decided = false, has_state = false, stop_bit = false, threw = false, nan = false;
  // It has trained with its state. What was copied or loaded counts as none until all digests were
  // compared: should its word that it joined be lost, it may be told to copy or load again.
  bool proved = false;
  protocol::join join;
  std::optional<protocol::finished> report;         // repeated after each hello
  std::optional<protocol::program_failed> failure;  // this, too
  time_point last_sent{}, last_told{};
};

// What the ranks of one generation share: who contributed to which iteration.
struct group {
  std::map<std::uint64_t, std::uint32_t> contributed;
  std::map<std::uint64_t, bool> stop, not_finite;
  std::map<std::uint64_t, std::uint64_t> wrong;  // what damaged ranks put into the sum; 0: nothing
};

struct result {
  std::uint32_t ranks = 0;
  run_outcome outcome = run_outcome::failed;
  std::string error;
  std::uint64_t steps = 0, generations = 0, recoveries = 0, rollbacks = 0, kills = 0, faults = 0;
  std::uint64_t from_snapshots = 0, from_checkpoints = 0;
  std::uint64_t damages = 0, mended = 0;  // runs with damage that ended with the right weights
  std::uint64_t left_out = 0;             // windows
  std::uint64_t stragglers = 0;           // replaced
  friend bool operator==(const result&, const result&) = default;
};

class simulator {
 public:
  explicit simulator(schedule plan);
  // Runs the schedule to its end. Throws law_broken.
  result run();
  // How many faults the seed drew, dropped ones included.
  [[nodiscard]] std::uint64_t drawn_faults() const { return drawn_faults_; }

 private:
  // world.cpp: time, channels, faults
  void after(std::chrono::nanoseconds delay, std::function<void()> what);
  [[nodiscard]] std::chrono::nanoseconds latency();
  void feed(const input& in);
  void read_digests();
  void post(input in, std::optional<time_point> when = std::nullopt);
  void post_to_anyone(input in);
  void from_worker(worker& w, input in);
  void draw_faults();
  void draw_many_faults();
  void inject_faults();
  void one_fault(std::uint64_t number);
  void kill_many(bool all);
  void hang(worker& w);
  void slow_down(worker& w, bool all_iterate, bool has_successor, int times);
  void damage(worker& w, std::uint64_t by);
  void poison(std::uint64_t ahead, std::optional<std::uint32_t> of_rank);
  [[nodiscard]] bool kills(std::uint64_t k, const worker& w) const;
  void check_mended(const end_run& a);
  void check_straggler(const kill_worker& a);
  void replace_trainer(worker& w);
  [[nodiscard]] bool noise() const { return plan_.noise && result_.faults > 0; }
  void die(worker& w, const std::string& cause);
  void report_loss(const worker& w, const std::string& cause);
  void replace_supervisor();
  void require(bool law, const std::string& text) const;

  // control.cpp
  void carry_out(const spawn_worker& a);
  void carry_out(const kill_worker& a);
  void carry_out(const revoke_generation& a);
  void carry_out(const find_source& a);
  void carry_out(const join_generation& a);
  void carry_out(const start_training& a);
  void carry_out(const ask_to_stop& a);
  void carry_out(const query_workers& a);
  void carry_out(const record_generation& a);
  void carry_out(const record_recovery& a);
  void carry_out(const report_poison& a);
  void carry_out(const set_deadline& a);
  void carry_out(const await_final_checkpoint& a);
  void carry_out(const announce&) {}
  void carry_out(const end_run& a);

  // workers.cpp: what a worker does
  void set_place(worker& w, protocol::worker_phase phase, generation_id generation);
  void count(const worker& w, std::int64_t by);
  void take_snapshot(worker& w);
  void apply(worker& w, iteration_id k);
  [[nodiscard]] std::uint64_t next_content(std::uint64_t content, std::uint64_t k) const;
  [[nodiscard]] std::uint64_t expected_content(std::uint64_t k);
  [[nodiscard]] bool is_wrong(const worker& w);
  void tell(std::uint32_t rank, incarnation_id incarnation, bool lifeline,
            std::function<void(worker&)> command);
  void say_hello(worker& w);
  void revoke(worker& w, generation_id g);
  void enter(worker& w, const protocol::join& j);
  void try_setup(generation_id g);
  void complete_join(worker& w);
  void fail_join(worker& w, error_code code);
  void contribute(worker& w);
  void decide(worker& w, std::uint64_t k);
  void commit(worker& w, std::uint64_t k);
  void write_digest(const worker& w);
  void finish(worker& w);
  void fail_program(worker& w);
  void give_up(worker& w, std::uint64_t k);
  void later(worker& w, std::function<void(worker&)> what);

  // ladder.cpp: what can be loaded where nobody survives
  [[nodiscard]] std::vector<shelved> complete_snapshots();
  void forget_the_dead(std::vector<worker>& incarnations);
  [[nodiscard]] std::optional<rung> newest_source(const find_source& a);
  void check_source(const protocol::join& j) const;

  [[nodiscard]] worker& newest(rank_id r) { return ranks_[r.value()].back(); }
  [[nodiscard]] std::string digest(const worker& w) const;

  schedule plan_;
  dice dice_;
  policy policy_;
  machine machine_;
  std::uint64_t epoch_ = 0;  // which supervisor
  time_point now_ = std::chrono::seconds(1);

  struct entry {
    time_point at;
    std::uint64_t sequence;
    std::function<void()> what;
    bool operator<(const entry& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  std::priority_queue<entry> queue_;
  std::uint64_t sequence_ = 0;

  std::vector<std::vector<worker>> ranks_;  // every incarnation
  std::map<std::uint64_t, group> groups_;
  std::vector<std::uint64_t> checkpoints_;
  std::vector<std::uint64_t> bad_checkpoints_;
  std::map<std::uint64_t, std::uint64_t> checkpoint_content_;
  std::uint64_t history_ = 0;      // newest commit of the branch, by anybody
  std::uint64_t newest_ever_ = 0;  // of any branch, or decided and to be rolled forward to
  branch_id branch_{1};
  generation_id branch_since_;
  std::optional<shelved> shelf_;
  std::map<std::uint64_t, std::vector<std::optional<rung>>> offered_;  // by generation that asked
  std::map<std::uint64_t, std::array<std::int64_t, 6>> places_;        // living workers by phase
  std::int64_t training_ = 0;                                          // of all generations
  std::int64_t deaf_ = 0;
  std::vector<std::uint64_t> expected_{0};  // content after k commits
  struct digest_written {
    rank_id rank;
    generation_id generation;
    iteration_id iteration;
    std::string digest;
  };
  std::vector<digest_written> written_;  // all rings, in the order of time
  std::size_t read_ = 0;                 // by this supervisor
  digest_watch digests_;
  // Windows that kill a rank, or all, whenever it computes them.
  std::map<std::uint64_t, std::optional<std::uint32_t>> poison_;
  std::uint64_t furthest_ = 0;          // window that anybody ever computed
  std::vector<iteration_id> left_out_;  // as control remembers them; ascending
  std::optional<rank_id> slow_killed_;  // for being slow, and not made good yet
  bool any_damage_ = false;
  bool gone_back_ = false;     // the machine once believed no survivor
  bool past_mending_ = false;  // nobody was left to compare with
  bool stop_asked_ = false;
  struct fault {
    std::uint64_t step = 0;
    std::uint64_t number = 0;
  };
  std::vector<fault> faults_;  // the next one last
  std::uint64_t drawn_faults_ = 0;
  std::optional<end_run> end_;
  result result_;
};

// Drops whatever is not needed for a law to break: faults one by one, then the noise.
[[nodiscard]] schedule shrink(schedule failing);
// The command that replays it with a trace.
[[nodiscard]] std::string replay_command(const schedule& s);

}  // namespace ftrt::recovery::sim
