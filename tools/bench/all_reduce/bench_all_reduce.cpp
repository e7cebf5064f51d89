// All-reduce among forked ranks, beside a copy out of the peer's buffer and a plain memcpy of the
// same size, taken by turns in the same run. FTRT_BENCH_RANKS: how many ranks (2).
//
//   us         one all-reduce, on buffers that every rank has just written
//   loop_us    the same, back to back on the same buffers
//   peer_us    a copy out of the buffer that the peer has just written
//   memcpy_us  a copy within the rank
//   x_peer, x_memcpy   us against these
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <runtime/communicator/shm_communicator.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using ftrt::communicator;
using ftrt::storage::shared_memory;

constexpr std::size_t largest_bytes = std::size_t{64} << 20;
constexpr std::chrono::seconds patience{120};  // of one wait for a peer

enum class act : std::uint32_t { quit, reduce, reduce_in_loop, write_and_wait };

struct command {
  act what = act::quit;
  std::uint32_t repeats = 0;
  std::uint64_t bytes = 0;
};

template <class T>
T must(ftrt::result<T> got) {
  if (got) return std::move(*got);
  std::fprintf(stderr, "bench_all_reduce: %s\n", got.error().describe().c_str());
  std::exit(1);
}

void must(ftrt::result<void> done) {
  if (done) return;
  std::fprintf(stderr, "bench_all_reduce: %s\n", done.error().describe().c_str());
  std::exit(1);
}

// One rank's seat: its communicator, and all buckets.
class seat {
 public:
  seat(std::uint32_t rank, const shared_memory& sync, const std::vector<shared_memory>& buckets)
      : rank_(rank) {
    const auto mode = shared_memory::access::read_write;
    const auto again = [&](const shared_memory& memory) {
      return must(shared_memory::map(must(memory.fd().duplicate()), memory.size(), mode));
    };
    ftrt::shm_membership membership{ftrt::generation_id{1},
                                    ftrt::rank_id{rank},
                                    static_cast<std::uint32_t>(buckets.size()),
                                    again(sync),
                                    {},
                                    patience};
    for (const auto& bucket : buckets) {
      membership.buckets.push_back(again(bucket));
      views_.push_back(membership.buckets.back().data());
    }
    comm_ = must(ftrt::make_shm_communicator(std::move(membership)));
    std::memset(views_[rank], 0, largest_bytes);
  }

  [[nodiscard]] const std::byte* bucket_of(std::uint32_t rank) const { return views_[rank]; }
  void meet() { must(comm_->barrier()); }
  void tell(command& order) { must(comm_->broadcast(as_bytes(order), ftrt::rank_id{0})); }

  // As rank 0 orders, until it says quit.
  void obey() {
    for (;;) {
      command order;
      tell(order);  // receives
      if (order.what == act::quit) return;
      carry_out(order);
    }
  }

  // What every rank does for an order; answers the seconds that the part of interest took.
  double carry_out(const command& order) {
    write_bucket(order.bytes);
    meet();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < order.repeats; ++i) {
      must(comm_->all_reduce({0, order.bytes / 4, ftrt::dtype::f32}, ftrt::reduce_op::max));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void write_bucket(std::size_t bytes) {
    auto* values = reinterpret_cast<float*>(views_[rank_]);
    const auto value = static_cast<float>(++written_);
    std::fill_n(values, bytes / 4, value);
  }

 private:
  static std::span<std::byte> as_bytes(command& order) {
    return {reinterpret_cast<std::byte*>(&order), sizeof order};
  }

  std::uint32_t rank_;
  std::vector<std::byte*> views_;
  std::unique_ptr<communicator> comm_;
  std::uint64_t written_ = 0;
};

std::unique_ptr<seat> root;
std::vector<std::byte> own_buffer;

double seconds_of_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to, from, bytes);
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double order(act what, std::uint32_t repeats, std::size_t bytes) {
  command next{what, repeats, bytes};
  root->tell(next);
  return root->carry_out(next);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void all_reduce(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::uint32_t loops = bytes <= 65536 ? 100 : 4;
  std::vector<double> reduce, loop, peer, plain;
  for (auto _ : state) {
    reduce.push_back(order(act::reduce, 1, bytes));
    state.SetIterationTime(reduce.back());
    loop.push_back(order(act::reduce_in_loop, loops, bytes) / loops);
    order(act::write_and_wait, 0, bytes);
    peer.push_back(seconds_of_copy(own_buffer.data(), root->bucket_of(1), bytes));
    root->write_bucket(bytes);
    plain.push_back(seconds_of_copy(own_buffer.data(), root->bucket_of(0), bytes));
  }
  state.counters["us"] = median(reduce) * 1e6;
  state.counters["loop_us"] = median(loop) * 1e6;
  state.counters["peer_us"] = median(peer) * 1e6;
  state.counters["memcpy_us"] = median(plain) * 1e6;
  state.counters["x_peer"] = median(reduce) / median(peer);
  state.counters["x_memcpy"] = median(reduce) / median(plain);
}

void register_sizes() {
  for (std::size_t bytes = 4096; bytes <= largest_bytes; bytes *= 4) {
    const std::size_t turns = std::clamp<std::size_t>((256 << 20) / bytes, 9, 200);
    benchmark::RegisterBenchmark("all_reduce", all_reduce)
        ->Arg(static_cast<std::int64_t>(bytes))
        ->Iterations(static_cast<std::int64_t>(turns))
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

std::uint32_t ranks_wanted() {
  const char* text = std::getenv("FTRT_BENCH_RANKS");
  const long count = text == nullptr ? 2 : std::strtol(text, nullptr, 10);
  if (count >= 2 && count <= 64) return static_cast<std::uint32_t>(count);
  std::fprintf(stderr, "FTRT_BENCH_RANKS: expected 2 to 64, found %s\n", text);
  std::exit(2);
}

std::vector<pid_t> fork_peers(const shared_memory& sync,
                              const std::vector<shared_memory>& buckets) {
  std::vector<pid_t> peers;
  for (std::uint32_t rank = 1; rank < buckets.size(); ++rank) {
    const pid_t pid = fork();
    if (pid != 0) {
      peers.push_back(pid);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    seat{rank, sync, buckets}.obey();
    _exit(0);
  }
  return peers;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::uint32_t ranks = ranks_wanted();
  std::vector<shared_memory> buckets;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    buckets.push_back(must(shared_memory::create("ftrt-bench-bucket", largest_bytes)));
  }
  const auto sync =
      must(shared_memory::create("ftrt-bench-sync", ftrt::shm_sync_block_bytes(ranks)));
  own_buffer.assign(largest_bytes, std::byte{1});
  const std::vector<pid_t> peers = fork_peers(sync, buckets);
  root = std::make_unique<seat>(0, sync, buckets);
  std::printf("%u ranks\n", ranks);
  register_sizes();
  benchmark::RunSpecifiedBenchmarks();
  command quit;
  root->tell(quit);
  root.reset();
  for (pid_t peer : peers) waitpid(peer, nullptr, 0);
  return 0;
}
