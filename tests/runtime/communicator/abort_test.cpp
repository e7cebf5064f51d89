#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <random>
#include <runtime/communicator/communicator.hpp>
#include <runtime/communicator/shm_communicator.hpp>
#include <stdexcept>
#include <string>
#include <tests/runtime/communicator/ranks_fixture.hpp>
#include <thread>
#include <vector>

namespace ftrt::tests {
namespace {

using mapping = rank_world::mapping;
using blocked_call = std::function<result<void>(communicator&)>;

constexpr bucket_region region{0, 100000, dtype::f32};

struct times {
  std::atomic<std::int64_t> aborted_at_ns;
  std::array<std::atomic<std::int64_t>, 8> left_at_ns;
};

// All ranks but the last block in `call`; then a second thread of rank 0 aborts.
void abort_releases_all_from(const blocked_call& call) {
  rank_world world{4, 1 << 20};
  shared_object<times> at;
  signal_pipe joined;
  signal_pipe go;
  signal_pipe over;
  forked_ranks ranks{4, [&](std::uint32_t rank) -> std::string {
                       auto comm = world.join(rank);
                       joined.raise();
                       if (rank == 3) return over.wait() ? "" : "never told to go";
                       std::thread control{[&] {
                         if (rank != 0 || !go.wait()) return;
                         at->aborted_at_ns = now_ns();
                         comm->abort();
                       }};
                       auto done = call(*comm);
                       at->left_at_ns[rank] = now_ns();
                       control.join();
                       if (done) return "the call succeeded without rank 3";
                       return done.error().code == error_code::aborted ? ""
                                                                       : done.error().describe();
                     }};
  ASSERT_TRUE(joined.wait(4));
  go.raise();
  for (std::uint32_t rank : {0, 1, 2}) {
    const rank_end end = ranks.wait(rank, 5s);
    EXPECT_FALSE(end.overstayed) << "rank " << rank << " hung";
    EXPECT_EQ(end.code, 0);
    const double ms = static_cast<double>(at->left_at_ns[rank] - at->aborted_at_ns) / 1e6;
    EXPECT_LT(ms, 1000);
  }
  over.raise();
  EXPECT_EQ(ranks.wait(3).code, 0);
}

TEST(abort, releases_every_rank_from_a_barrier) {
  abort_releases_all_from([](communicator& comm) { return comm.barrier(); });
}

TEST(abort, releases_every_rank_from_an_all_reduce) {
  abort_releases_all_from(
      [](communicator& comm) { return comm.all_reduce(region, reduce_op::sum); });
}

TEST(abort, releases_every_rank_from_an_exchange) {
  abort_releases_all_from([](communicator& comm) {
    std::array<std::byte, 32> words{};
    return comm.exchange(1, std::span{words}.first(8), words);
  });
}

TEST(abort, releases_every_rank_from_a_broadcast) {
  abort_releases_all_from([](communicator& comm) {
    std::vector<std::byte> bytes(1 << 20);
    return comm.broadcast(bytes, rank_id{3});
  });
}

TEST(abort, releases_a_rank_from_recv_and_from_send) {
  abort_releases_all_from([](communicator& comm) {
    std::vector<std::byte> bytes(1 << 20);
    if (comm.rank().value() == 1) return comm.recv(bytes, rank_id{3});
    return comm.send(bytes, rank_id{3});
  });
}

TEST(abort, before_any_peer_has_come_releases_set_up) {
  rank_world world{3, 4096};
  auto comm = world.join(0);
  std::thread control{[&] { comm->abort(); }};
  auto met = comm->barrier();
  control.join();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, error_code::aborted);
  // A rank that comes later learns of it at its first call.
  auto late = world.try_join(1);
  ASSERT_TRUE(late);
  EXPECT_EQ((*late)->barrier().error().code, error_code::aborted);
}

TEST(abort, waits_for_a_rank_that_has_not_come_yet) {
  rank_world world{2, 4096};
  signal_pipe first_waits;
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    if (rank == 1 && !first_waits.wait()) return "rank 0 never came";
    auto comm = world.join(rank);
    if (rank == 0) first_waits.raise();
    auto met = comm->barrier();
    return met ? "" : met.error().describe();
  });
}

TEST(abort, is_what_peers_of_a_rank_that_left_get) {
  rank_world world{3, 4096};
  expect_all_well(3, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    if (auto met = comm->barrier(); !met) return met.error().describe();
    if (rank == 2) return {};
    auto met = comm->barrier();
    if (met) return "met without rank 2";
    if (!comm->lost_peers().empty()) return "a rank that left was called dead";
    return met.error().code == error_code::aborted ? "" : met.error().describe();
  });
}

TEST(abort, a_last_collective_succeeds_although_a_faster_rank_has_left) {
  for (int round = 0; round < 20; ++round) {
    rank_world world{4, 1 << 20};
    expect_all_well(4, [&](std::uint32_t rank) -> std::string {
      auto comm = world.join(rank);
      auto done = comm->all_reduce(region, reduce_op::sum);
      return done ? "" : done.error().describe();
    });
  }
}

TEST(abort, a_timeout_ends_the_generation_for_all) {
  rank_world world{3, 4096};
  signal_pipe over;
  expect_all_well(3, [&](std::uint32_t rank) -> std::string {
    auto comm = world.try_join(rank, mapping::own, rank == 0 ? 50ms : 0ms);
    if (!comm) return comm.error().describe();
    if (rank == 2) return over.wait() ? "" : "never told";
    auto met = (*comm)->barrier();
    if (rank == 1) over.raise();
    const error_code expected = rank == 0 ? error_code::timeout : error_code::aborted;
    return !met && met.error().code == expected ? "" : "unexpected end of the barrier";
  });
}

// The step loop's life in small: collectives, an abort at any moment, all parked, the next
// generation on the same buckets.
std::string live_through_generations(rank_world& world, std::uint32_t rank, std::size_t generations,
                                     std::uint64_t seed, mapping how,
                                     const std::function<void()>& park) {
  const std::uint32_t count = world.world_size();
  for (std::size_t generation = 1; generation <= generations; ++generation) {
    auto joined = world.try_join(rank, how, 0ns, generation);
    if (!joined) return joined.error().describe();
    communicator& comm = **joined;
    std::mt19937_64 random{seed + generation};
    const bool aborts = random() % count == rank;
    const std::chrono::microseconds moment{random() % 400};
    std::thread control;
    for (int round = 0;; ++round) {
      std::fill_n(world.bucket_as<float>(rank), 20000, static_cast<float>(rank + round));
      auto done = comm.all_reduce({0, round % 2 == 0 ? 20000U : 500U, dtype::f32}, reduce_op::sum);
      if (!done && round == 0) return "first round: " + done.error().describe();
      if (!done && done.error().code != error_code::aborted) return done.error().describe();
      if (!done) break;
      const float expected = static_cast<float>(count * round + count * (count - 1) / 2);
      if (world.bucket_as<float>(rank)[499] != expected) return "a wrong sum";
      if (aborts && round == 0) {
        control = std::thread{[&comm, moment] {
          std::this_thread::sleep_for(moment);  // the random moment
          comm.abort();
        }};
      }
    }
    if (control.joinable()) control.join();
    park();
  }
  return {};
}

TEST(abort, two_hundred_times_leaves_the_process_fit_for_the_next_generation) {
  const std::uint64_t seed = test_seed();
  rank_world world{3, 1 << 20};
  for (int generation = 1; generation < 200; ++generation) world.begin_generation();
  rank_world meeting{3, 4096};  // where ranks park: a communicator that nobody aborts
  expect_all_well(3, [&](std::uint32_t rank) {
    auto parking = meeting.join(rank);
    return live_through_generations(world, rank, 200, seed, mapping::own, [&] {
      if (!parking->barrier()) throw std::runtime_error("parking failed");
    });
  });
}

TEST(abort, works_among_threads_of_one_process) {
  const std::uint64_t seed = test_seed();
  rank_world world{3, 1 << 20};
  for (int generation = 1; generation < 30; ++generation) world.begin_generation();
  std::barrier<> parking{3};
  expect_all_well_in_threads(3, [&](std::uint32_t rank) {
    return live_through_generations(world, rank, 30, seed, mapping::shared,
                                    [&] { parking.arrive_and_wait(); });
  });
}

TEST(membership, refuses_a_sync_block_of_another_generation) {
  rank_world world{2, 4096};
  auto first = world.join(0);
  auto stale = world.try_join_as({generation_id{2}, rank_id{1}, 2, {}, {}, 0ns});
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, error_code::stale_generation);
}

TEST(membership, refuses_a_seat_that_is_taken) {
  rank_world world{2, 4096};
  auto first = world.join(0);
  auto second = world.try_join(0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, error_code::busy);
}

TEST(membership, refuses_what_cannot_be) {
  EXPECT_EQ(make_shm_communicator({generation_id{1}, rank_id{0}, 0, {}, {}, 0ns}).error().code,
            error_code::invalid_argument);
  EXPECT_EQ(make_shm_communicator({generation_id{1}, rank_id{0}, 65, {}, {}, 0ns}).error().code,
            error_code::invalid_argument);
  EXPECT_EQ(make_shm_communicator({generation_id{1}, rank_id{2}, 2, {}, {}, 0ns}).error().code,
            error_code::invalid_argument);
  EXPECT_EQ(make_shm_communicator({generation_id{1}, rank_id{0}, 2, {}, {}, 0ns}).error().code,
            error_code::invalid_argument);
}

}  // namespace
}  // namespace ftrt::tests
