#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <runtime/communicator/communicator.hpp>
#include <runtime/communicator/futex.hpp>
#include <string>
#include <tests/runtime/communicator/ranks_fixture.hpp>
#include <thread>
#include <vector>

namespace ftrt::tests {
namespace {

constexpr std::uint32_t most_ranks = 8;

// What ranks tell the test, and each other, outside the communicator.
struct notes {
  std::array<std::atomic<std::int64_t>, most_ranks> left_at_ns;
  std::array<std::atomic<std::uint64_t>, most_ranks> seen;  // the last exchange seen complete
  std::atomic<std::uint64_t> highest_seen;
};

// All-reduces until it fails; says so on `under_way` after a few rounds.
error reduce_until_it_fails(communicator& comm, signal_pipe& under_way,
                            const bucket_region& region) {
  for (int round = 0;; ++round) {
    auto done = comm.all_reduce(region, reduce_op::sum);
    if (!done) return done.error();
    if (round == 5) under_way.raise();
  }
}

void kill_one_of_three(const bucket_region& region) {
  rank_world world{3, 16 << 20};
  shared_object<notes> said;
  signal_pipe under_way;
  forked_ranks ranks{3, [&](std::uint32_t rank) -> std::string {
                       auto comm = world.join(rank);
                       const error why = reduce_until_it_fails(*comm, under_way, region);
                       said->left_at_ns[rank] = now_ns();
                       if (why.code != error_code::peer_lost) return why.describe();
                       if (why.context != "1") return "context is " + why.context;
                       if (comm->lost_peers() != std::vector{rank_id{1}}) return "lost_peers()";
                       auto again = comm->barrier();
                       if (again || again.error().code != error_code::peer_lost) return "not over";
                       return {};
                     }};
  ASSERT_TRUE(under_way.wait(3));
  const std::int64_t killed_at = now_ns();
  ranks.kill(1);
  for (std::uint32_t survivor : {0, 2}) {
    const rank_end end = ranks.wait(survivor);
    EXPECT_FALSE(end.overstayed || end.killed);
    EXPECT_EQ(end.code, 0);
    const double ms = static_cast<double>(said->left_at_ns[survivor] - killed_at) / 1e6;
    std::printf("rank %u left the collective %.3f ms after the SIGKILL\n", survivor, ms);
    EXPECT_LT(ms, 1000);
  }
}

TEST(peer_loss, C01_survivors_leave_a_long_all_reduce_at_once_and_name_the_dead_rank) {
  kill_one_of_three({0, 4 << 20, dtype::f32});
}

TEST(peer_loss, C01_survivors_leave_a_short_all_reduce_at_once_and_name_the_dead_rank) {
  kill_one_of_three({0, 16, dtype::f32});
}

TEST(peer_loss, C01_without_futex_waitv_too) {
  shm::forbid_waitv(true);  // inherited by the ranks
  kill_one_of_three({0, 16, dtype::f32});
  shm::forbid_waitv(false);
}

TEST(peer_loss, C06_a_rank_that_waits_says_so_again_and_again_until_it_is_released) {
  rank_world world{2, 4096};
  shared_object<std::atomic<std::uint32_t>> beats;
  signal_pipe joined;
  signal_pipe release;
  forked_ranks ranks{2, [&](std::uint32_t rank) -> std::string {
                       auto comm = world.join(rank);
                       if (rank == 0) comm->on_wait([&] { ++*beats; });
                       if (rank == 1 && !release.wait()) return "never released";
                       joined.raise();
                       return comm->barrier() ? "" : "the barrier failed";
                     }};
  ASSERT_TRUE(joined.wait());
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (*beats < 5 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_GE(*beats, 5U) << "fewer beats than that in ten seconds";
  release.raise();
  EXPECT_EQ(ranks.wait(0).code, 0);
  EXPECT_EQ(ranks.wait(1).code, 0);
}

TEST(peer_loss, is_seen_while_waiting_for_another_rank) {
  rank_world world{3, 4096};
  signal_pipe joined;
  signal_pipe release;
  forked_ranks ranks{3, [&](std::uint32_t rank) -> std::string {
                       auto comm = world.join(rank);
                       joined.raise();
                       if (rank != 0) return release.wait() ? "" : "never released";
                       // Waits for rank 1 first, which is alive and does not come.
                       auto met = comm->barrier();
                       return !met && met.error().code == error_code::peer_lost &&
                                      met.error().context == "2"
                                  ? ""
                                  : "barrier did not report rank 2";
                     }};
  ASSERT_TRUE(joined.wait(3));
  ranks.kill(2);
  EXPECT_EQ(ranks.wait(0, 5s).code, 0);
  release.raise();
  EXPECT_EQ(ranks.wait(1).code, 0);
}

TEST(peer_loss, of_a_thread_is_seen_by_other_threads) {
  rank_world world{3, 4096};
  std::vector<communicator*> abandoned;
  expect_all_well_in_threads(3, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank, rank_world::mapping::shared);
    if (auto met = comm->barrier(); !met) return met.error().describe();
    if (rank == 1) {  // ends without leaving, as a crashed one does; the block is leaked on purpose
      abandoned.push_back(comm.release());
      return {};
    }
    auto met = comm->barrier();
    return !met && met.error().code == error_code::peer_lost && met.error().context == "1"
               ? ""
               : "the dead thread was not reported";
  });
  static auto& kept_reachable = *new std::vector<communicator*>;
  kept_reachable.insert(kept_reachable.end(), abandoned.begin(), abandoned.end());
}

// One random collective, the same on all ranks.
result<void> random_collective(communicator& comm, std::mt19937_64& random, std::uint64_t round) {
  const std::uint64_t count = 1 + random() % (random() % 4 == 0 ? 60000 : 3000);
  const bucket_region region{64 * (random() % 64), count, dtype::f32};
  const rank_id root{static_cast<std::uint32_t>(random() % comm.world_size())};
  std::vector<std::byte> bytes(count);
  std::array<std::byte, 8 * most_ranks> all{};
  switch (random() % 7) {
    case 0:
      return comm.barrier();
    case 1:
      return comm.exchange(round, std::span{bytes}.first(1),
                           std::span{all}.first(comm.world_size()));
    case 2:
      return comm.broadcast(bytes, root);
    case 3:
      return comm.reduce_scatter(region, reduce_op::sum);
    case 4:
      return comm.all_gather(region);
    default:
      return comm.all_reduce(region, reduce_op::sum);
  }
}

std::string collect_until_it_fails(communicator& comm, std::uint64_t seed, std::uint32_t victims,
                                   signal_pipe& under_way) {
  std::mt19937_64 random{seed};
  for (std::uint64_t round = 1;; ++round) {
    auto done = random_collective(comm, random, round);
    if (round == 3) under_way.raise();
    if (done) continue;
    if (done.error().code != error_code::peer_lost) return done.error().describe();
    const auto lost = comm.lost_peers();
    const bool named = !lost.empty() && !done.error().context.empty() &&
                       std::all_of(lost.begin(), lost.end(),
                                   [&](rank_id r) { return (victims >> r.value() & 1) != 0; });
    return named ? "" : "named the wrong ranks: " + done.error().context;
  }
}

TEST(peer_loss, at_random_moments_never_leaves_a_rank_waiting) {
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random{seed};
  std::int64_t worst_ns = 0;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const std::uint32_t count = 2 + random() % 7;
    const auto everyone = (1U << count) - 1;
    auto victims = static_cast<std::uint32_t>(random()) & everyone;
    if (victims == 0 || victims == everyone) victims = 1U << random() % count;
    const std::uint64_t program_seed = random();
    rank_world world{count, 1 << 20};
    shared_object<notes> said;
    signal_pipe under_way;
    forked_ranks ranks{count, [&](std::uint32_t rank) {
                         auto comm = world.join(rank);
                         auto end = collect_until_it_fails(*comm, program_seed, victims, under_way);
                         said->left_at_ns[rank] = now_ns();
                         return end;
                       }};
    ASSERT_TRUE(under_way.wait(count));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));  // the random moment
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      if ((victims >> rank & 1) != 0) ranks.kill(rank);
    }
    const std::int64_t killed_at = now_ns();
    const auto ends = ranks.wait_all(10s);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      if ((victims >> rank & 1) != 0) continue;
      ASSERT_FALSE(ends[rank].overstayed) << "rank " << rank << " waited on";
      ASSERT_EQ(ends[rank].code, 0) << "rank " << rank;
      worst_ns = std::max(worst_ns, said->left_at_ns[rank] - killed_at);
    }
  }
  std::printf("the slowest survivor left %.3f ms after the last SIGKILL\n",
              static_cast<double>(worst_ns) / 1e6);
}

// Exchanges until it fails; answers the key that failed.
std::uint64_t exchange_until_it_fails(communicator& comm, std::uint32_t rank, notes& said,
                                      signal_pipe& under_way) {
  std::array<std::uint64_t, most_ranks> all{};
  for (std::uint64_t key = 1;; ++key) {
    const std::uint64_t mine = key * 100 + rank;
    auto done = comm.exchange(key, std::as_bytes(std::span{&mine, 1}),
                              std::as_writable_bytes(std::span{all.data(), comm.world_size()}));
    if (!done) return key;
    said.seen[rank] = key;
    if (key == 20) under_way.raise();
  }
}

std::string still_reads(communicator& comm, std::uint64_t key) {
  std::array<std::uint64_t, most_ranks> all{};
  const bool complete =
      comm.exchanged(key, std::as_writable_bytes(std::span{all.data(), comm.world_size()}));
  if (!complete) return "exchange " + std::to_string(key) + " was seen, but is not there";
  for (std::uint32_t rank = 0; rank < comm.world_size(); ++rank) {
    if (all[rank] != key * 100 + rank) return "the words of " + std::to_string(key) + " are wrong";
  }
  return {};
}

TEST(peer_loss, leaves_every_exchange_that_any_rank_saw_readable_by_all_survivors) {
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random{seed};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const std::uint32_t count = 2 + random() % 4;
    const auto victim = static_cast<std::uint32_t>(random() % count);
    rank_world world{count, 4096};
    shared_object<notes> said;
    signal_pipe under_way;
    signal_pipe parked;
    signal_pipe all_parked;
    shared_object<notes> answers;
    forked_ranks ranks{count, [&](std::uint32_t rank) -> std::string {
                         auto comm = world.join(rank);
                         const std::uint64_t failed =
                             exchange_until_it_fails(*comm, rank, *said, under_way);
                         parked.raise();
                         if (!all_parked.wait()) return "never told that all are parked";
                         const std::uint64_t highest = said->highest_seen;
                         if (auto wrong = still_reads(*comm, highest); !wrong.empty()) return wrong;
                         // Of the one that failed here all survivors must hold the same view.
                         if (failed < highest) return "seen beyond a rank that had not come";
                         answers->seen[rank] = still_reads(*comm, highest + 1).empty() ? 2 : 1;
                         return {};
                       }};
    ASSERT_TRUE(under_way.wait(count));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));  // the random moment
    ranks.kill(victim);
    ranks.wait(victim);
    ASSERT_TRUE(parked.wait(count - 1));
    for (auto& seen : said->seen) {
      said->highest_seen = std::max(said->highest_seen.load(), seen.load());
    }
    all_parked.raise(count - 1);
    const auto ends = ranks.wait_all();
    std::uint64_t view = 0;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      if (rank == victim) continue;
      ASSERT_FALSE(ends[rank].overstayed);
      ASSERT_EQ(ends[rank].code, 0) << "rank " << rank;
      if (view == 0) view = answers->seen[rank];
      EXPECT_EQ(answers->seen[rank], view) << "survivors disagree about an exchange";
    }
  }
}

}  // namespace
}  // namespace ftrt::tests
