#pragma once

#include <actors/recovery/machine.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

// A small world around the recovery machine: workers, channels, a catalog and faults, all drawn
// from one seed. Virtual time, one thread, no process. What it checks are the laws of recovery; a
// broken one throws law_broken with the seed, and `FTRT_SIM_SEED=n` replays that schedule with a
// trace.
namespace ftrt::recovery::sim {

struct law_broken {
  std::string text;
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

struct worker {
  rank_id rank;
  incarnation_id incarnation;
  bool alive = false;
  bool forked = false;
  bool deaf = false;     // hangs: answers nothing, contributes nothing
  bool damaged = false;  // its state has a wrong bit
  protocol::worker_phase phase = protocol::worker_phase::starting;
  generation_id generation;
  generation_id revoked;
  iteration_id committed, prepared;
  bool decided = false, has_state = false, stop_bit = false, threw = false;
  protocol::join join;
  std::optional<protocol::finished> report;         // repeated after each hello
  std::optional<protocol::program_failed> failure;  // this, too
  time_point last_sent{}, last_told{};
};

// What the ranks of one generation share: who contributed to which iteration.
struct group {
  std::map<std::uint64_t, std::uint32_t> contributed;
  std::map<std::uint64_t, bool> stop;
};

struct result {
  run_outcome outcome = run_outcome::failed;
  std::string error;
  std::uint64_t steps = 0, generations = 0, recoveries = 0, rollbacks = 0, kills = 0, faults = 0;
};

class simulator {
 public:
  explicit simulator(std::uint64_t seed, bool trace = false);
  // Runs the schedule to its end. Throws law_broken.
  result run();

 private:
  // world.cpp: time, channels, faults
  void after(std::chrono::nanoseconds delay, std::function<void()> what);
  [[nodiscard]] std::chrono::nanoseconds latency();
  void feed(const input& in);
  void post(input in, std::optional<time_point> when = std::nullopt);
  void from_worker(worker& w, input in);
  void inject_faults();
  void one_fault();
  void die(worker& w, const std::string& cause);
  void report_loss(const worker& w, const std::string& cause);
  void replace_supervisor();
  void require(bool law, const std::string& text) const;

  // control.cpp
  void carry_out(const spawn_worker& a);
  void carry_out(const kill_worker& a);
  void carry_out(const revoke_generation& a);
  void carry_out(const find_checkpoint& a);
  void carry_out(const join_generation& a);
  void carry_out(const start_training& a);
  void carry_out(const ask_to_stop& a);
  void carry_out(const query_workers& a);
  void carry_out(const record_generation& a);
  void carry_out(const record_recovery& a);
  void carry_out(const set_deadline& a);
  void carry_out(const await_final_checkpoint& a);
  void carry_out(const announce&) {}
  void carry_out(const end_run& a);

  // workers.cpp: what a worker does
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
  void finish(worker& w);
  void fail_program(worker& w);
  void later(worker& w, std::function<void(worker&)> what);

  [[nodiscard]] worker& newest(rank_id r) { return ranks_[r.value()].back(); }
  [[nodiscard]] std::string digest(const worker& w) const;

  dice dice_;
  std::uint64_t seed_;
  bool trace_;
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
  std::uint64_t history_ = 0;  // newest commit of the branch, by anybody
  branch_id branch_{1};
  generation_id branch_since_;
  bool any_damage_ = false;
  bool stop_asked_ = false;
  std::vector<std::uint64_t> fault_steps_;
  std::optional<end_run> end_;
  result result_;
};

}  // namespace ftrt::recovery::sim
