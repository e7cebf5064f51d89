#pragma once

#include <gtest/gtest.h>

#include <actors/recovery/machine.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ftrt::recovery {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A machine with its world played by hand: feed() an input, look at what it asked for. The short
// forms speak for the newest incarnation of a rank and the newest generation.
//
//   stage s(2);
//   s.start();                       // trains in generation 1
//   s.lose(rank_id{1}, 7);           // with 7 commits in its page
//   s.park(rank_id{0}, 7);
class stage {
 public:
  explicit stage(std::uint32_t world) : machine_(limits(world)) {}
  explicit stage(policy p) : machine_(std::move(p)) {}

  static policy limits(std::uint32_t world) {
    policy p;
    p.world_size = world;
    p.total_iterations = 1000;
    p.max_restarts = 100;
    p.window = seconds(600);
    p.max_failures_without_progress = 3;
    p.backoff_initial = milliseconds(100);
    p.backoff_max = seconds(1);
    p.replace_stragglers = true;
    p.start_timeout = seconds(10);
    p.park_timeout = seconds(2);
    p.join_timeout = seconds(20);
    p.stop_timeout = seconds(30);
    return p;
  }

  // Every action of this step; `all` gathers those of one kind.
  const std::vector<action>& feed(const input& in) {
    now_ += milliseconds(1);
    actions_ = machine_.step(in, now_);
    EXPECT_FALSE(machine_.reason().empty());
    return actions_;
  }
  void pass(std::chrono::nanoseconds time) { now_ += time; }

  template <class Action>
  [[nodiscard]] std::vector<Action> all() const {
    std::vector<Action> found;
    for (const action& a : actions_)
      if (const auto* one = std::get_if<Action>(&a)) found.push_back(*one);
    return found;
  }
  template <class Action>
  [[nodiscard]] std::optional<Action> one() const {
    const auto found = all<Action>();
    EXPECT_LE(found.size(), 1u);
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
  [[nodiscard]] std::vector<rank_id> killed() const {
    std::vector<rank_id> ranks;
    for (const kill_worker& k : all<kill_worker>()) ranks.push_back(k.rank);
    return ranks;
  }
  [[nodiscard]] std::vector<rank_id> spawned() const {
    std::vector<rank_id> ranks;
    for (const spawn_worker& k : all<spawn_worker>()) ranks.push_back(k.rank);
    return ranks;
  }

  [[nodiscard]] const state& now() const { return machine_.current(); }
  [[nodiscard]] time_point time() const { return now_; }
  [[nodiscard]] const std::string& reason() const { return machine_.reason(); }
  [[nodiscard]] incarnation_id newest(rank_id r) const {
    if (now().ranks.empty()) return incarnation_id{1};  // nothing has begun
    return now().ranks.at(r.value()).incarnation;
  }
  [[nodiscard]] standing stands(rank_id r) const { return now().ranks.at(r.value()).stands; }
  [[nodiscard]] generation_id generation() const { return now().generation; }

  void hello(rank_id r) {
    protocol::hello said;
    said.rank = r;
    said.incarnation = newest(r);
    said.pid = 100 + static_cast<std::int32_t>(r.value());
    feed(worker_said_hello{said});
  }
  void hello(rank_id r, protocol::worker_phase phase, std::uint64_t generation,
             std::uint64_t committed) {
    protocol::hello said;
    said.rank = r;
    said.incarnation = newest(r);
    said.generation = generation_id{generation};
    said.committed = iteration_id{committed};
    said.phase = phase;
    said.has_state = phase != protocol::worker_phase::starting;
    feed(worker_said_hello{said});
  }
  void lose(rank_id r, std::uint64_t committed = 0, bool applying = false) {
    feed(worker_lost{r, newest(r), "killed by signal 9 (SIGKILL)", "last words",
                     iteration_id{committed}, applying, now_ - milliseconds(5)});
  }
  void park(rank_id r, std::uint64_t committed, std::uint64_t prepared = 0, bool decided = false,
            bool has_state = true) {
    feed(worker_parked{
        r,
        newest(r),
        {generation(), iteration_id{committed}, iteration_id{prepared}, decided, has_state}});
  }
  void join(rank_id r, const std::string& digest = "same", milliseconds state_took = {}) {
    const auto state_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds{state_took}.count());
    feed(worker_joined{r, newest(r), {generation(), now().from, digest, state_ns}});
  }
  void fail_to_join(rank_id r, error_code code, const std::string& text = "no") {
    feed(worker_join_failed{r, newest(r), {generation(), code, text}});
  }
  void finish(rank_id r, std::uint64_t iteration, const std::string& digest = "weights",
              bool stopped = false) {
    protocol::finished said;
    said.generation = generation();
    said.iteration = iteration_id{iteration};
    said.weights_digest = digest;
    said.stopped = stopped;
    feed(worker_finished{r, newest(r), said});
  }
  void fail_program(rank_id r, const std::string& text) {
    feed(worker_program_failed{r, newest(r), {generation(), iteration_id{5}, text}});
  }
  void commit(std::uint64_t iteration) { feed(progressed{generation(), iteration_id{iteration}}); }
  void agree(std::uint64_t iteration) {
    feed(states_agreed{generation(), iteration_id{iteration}});
  }
  void diverge(std::uint64_t iteration, std::vector<rank_id> odd) {
    feed(state_diverged{generation(), iteration_id{iteration}, std::move(odd)});
  }
  void not_finite(rank_id r, std::uint64_t iteration, std::vector<rank_id> whose = {}) {
    feed(
        worker_not_finite{r, newest(r), {generation(), iteration_id{iteration}, std::move(whose)}});
  }
  void slow(rank_id r, bool all_iterate = true, bool has_successor = true) {
    feed(straggler_found{generation(), r, newest(r), "computes for 90 ms an iteration", all_iterate,
                         has_successor});
  }
  void checkpoint(std::uint64_t iteration) {
    feed(source_found{generation(),
                      rung{rung::kind::checkpoint, iteration_id{iteration}, "/run/checkpoints/1"}});
  }
  void snapshot(std::uint64_t iteration) {
    feed(source_found{generation(), rung{rung::kind::snapshot, iteration_id{iteration}, {}}});
  }
  void no_checkpoint() { feed(source_found{generation(), {}}); }

  template <class Function>
  void each_rank(Function&& f) {
    for (std::uint32_t r = 0; r < now().ranks.size(); ++r) f(rank_id{r});
  }
  void all_hello() {
    each_rank([&](rank_id r) {
      if (stands(r) == standing::starting) hello(r);
    });
  }
  void all_join() {
    each_rank([&](rank_id r) {
      if (stands(r) == standing::joining) join(r);
    });
  }
  // A fresh run, up to training in generation 1 with `committed` commits.
  void start(std::uint64_t committed = 0) {
    feed(begin{});
    all_hello();
    no_checkpoint();
    all_join();
    ASSERT_EQ(now().at, phase::training);
    if (committed > 0) commit(committed);
  }
  [[nodiscard]] std::vector<protocol::state_role> roles() const {
    std::vector<protocol::state_role> roles;
    const auto join = one<join_generation>();
    if (!join) return roles;
    for (const protocol::join& j : join->by_rank) roles.push_back(j.role);
    return roles;
  }

 private:
  machine machine_;
  time_point now_ = seconds(1000);
  std::vector<action> actions_;
};

inline constexpr rank_id r0{0};
inline constexpr rank_id r1{1};
inline constexpr rank_id r2{2};

}  // namespace ftrt::recovery
