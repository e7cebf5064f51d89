#include <actors/recovery/machine.hpp>
#include <cstdlib>
#include <tools/bench/micro/measure.hpp>

namespace ftrt::bench {
namespace {

using namespace recovery;

// A machine and obedient ranks: whatever it asks of one is answered at once.
class obedient_world {
 public:
  explicit obedient_world(std::uint32_t ranks) : machine_(limits(ranks)) {
    feed(begin{});
    settle();
  }

  void commit() {
    iteration_ = iteration_.next();
    feed(progressed{machine_.current().generation, iteration_});
  }

  // Rank 0 dies, all others park, it comes back, all join, one more iteration is committed.
  void lose_rank_0_and_recover() {
    const auto& now = machine_.current();
    feed(worker_lost{rank_id{0}, now.ranks[0].incarnation, "killed by signal 9 (SIGKILL)", "",
                     iteration_, false, clock_});
    for (std::uint32_t r = 1; r < now.ranks.size(); ++r) {
      feed(worker_parked{rank_id{r},
                         now.ranks[r].incarnation,
                         {now.generation, iteration_, iteration_id{}, false, true}});
    }
    settle();
    commit();
  }

 private:
  static policy limits(std::uint32_t ranks) {
    policy p;
    p.world_size = ranks;
    p.max_restarts = std::uint64_t{1} << 60;
    p.window = std::chrono::milliseconds(1);
    p.start_timeout = p.park_timeout = p.join_timeout = p.stop_timeout = std::chrono::hours(1);
    return p;
  }

  void feed(const input& in) {
    clock_ += std::chrono::milliseconds(1);
    benchmark::DoNotOptimize(machine_.step(in, clock_));
  }

  // Newcomers say hello, there is no checkpoint, all join.
  void settle() {
    const auto& now = machine_.current();
    for (std::uint32_t r = 0; r < now.ranks.size(); ++r) {
      if (now.ranks[r].stands != standing::starting) continue;
      protocol::hello hello;
      hello.rank = rank_id{r};
      hello.incarnation = now.ranks[r].incarnation;
      hello.pid = 100;
      feed(worker_said_hello{hello});
    }
    if (now.at == phase::choosing) feed(source_found{now.generation, {}});
    for (std::uint32_t r = 0; r < now.ranks.size(); ++r) {
      if (now.ranks[r].stands != standing::joining) continue;
      feed(worker_joined{rank_id{r}, now.ranks[r].incarnation, {now.generation, now.from, "same"}});
    }
    if (now.at == phase::training) return;
    std::fprintf(stderr, "bench_micro: expected a world that trains, found %s\n",
                 describe(now).c_str());
    std::exit(1);
  }

  machine machine_;
  time_point clock_ = std::chrono::seconds(1);
  iteration_id iteration_;
};

void recovery_step(benchmark::State& state) {
  obedient_world world{static_cast<std::uint32_t>(state.range(0))};
  for (auto _ : state) world.commit();
}

void recovery_of_a_rank(benchmark::State& state) {
  obedient_world world{static_cast<std::uint32_t>(state.range(0))};
  for (auto _ : state) world.lose_rank_0_and_recover();
}

BENCHMARK(recovery_step)->Arg(2)->Arg(64);
BENCHMARK(recovery_of_a_rank)->Arg(2)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ftrt::bench
