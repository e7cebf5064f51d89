#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <runtime/communicator/communicator.hpp>
#include <string>
#include <tests/runtime/communicator/ranks_fixture.hpp>
#include <thread>
#include <vector>

// A death that is seen while the survivors compute and call nobody.
namespace ftrt::tests {
namespace {

struct notes {
  std::array<std::atomic<std::int64_t>, 3> told_at_ns;
};

// A rank that computes: no call of the communicator's, until a peer dies.
std::string compute_until_told(communicator& comm, notes& said,
                               const std::function<void()>& watching) {
  std::atomic<int> told{0};
  std::atomic<bool> right{false};
  comm.on_loss([&](const std::vector<rank_id>& lost) {
    said.told_at_ns[comm.rank().value()] = now_ns();
    right = lost == std::vector{rank_id{1}};
    ++told;
  });
  if (!comm.check()) return "the generation ended before anybody died";
  watching();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (told == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  if (told != 1 || !right) return "was not told that rank 1 died";
  const auto over = comm.check();
  if (over || over.error().code != error_code::peer_lost) return "check() does not say so";
  return comm.barrier() ? "the barrier went on" : "";
}

void kill_one_while_all_compute(bool comes_late) {
  rank_world world{3, 4096};
  shared_object<notes> said;
  signal_pipe others_watch;
  signal_pipe computing;
  forked_ranks ranks{3, [&](std::uint32_t rank) -> std::string {
                       if (comes_late && rank == 1 && !others_watch.wait(2))
                         return "nobody watches";
                       auto comm = world.join(rank);
                       if (!comes_late && !comm->barrier()) return "the barrier failed";
                       return compute_until_told(*comm, *said, [&] {
                         if (rank != 1) others_watch.raise();
                         computing.raise();
                       });
                     }};
  ASSERT_TRUE(computing.wait(3));
  const std::int64_t killed_at = now_ns();
  ranks.kill(1);
  for (std::uint32_t survivor : {0, 2}) {
    const rank_end end = ranks.wait(survivor);
    EXPECT_FALSE(end.overstayed || end.killed);
    EXPECT_EQ(end.code, 0);
    std::printf("rank %u was told %.3f ms after the SIGKILL\n", survivor,
                static_cast<double>(said->told_at_ns[survivor] - killed_at) / 1e6);
  }
}

TEST(loss_watch, C01_tells_a_rank_that_computes_and_calls_nobody) {
  kill_one_while_all_compute(false);
}

TEST(loss_watch, tells_of_a_rank_that_came_later_than_those_that_watch) {
  kill_one_while_all_compute(true);
}

TEST(loss_watch, tells_nothing_where_a_generation_is_only_aborted_or_left) {
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    std::atomic<int> told{0};
    auto comm = world.join(rank);
    comm->on_loss([&](const std::vector<rank_id>&) { ++told; });
    if (!comm->barrier()) return "the barrier failed";
    if (rank == 0) comm->abort();
    while (comm->check()) std::this_thread::yield();
    comm.reset();  // joins the watch
    return told == 0 ? "" : "told of a loss that was none";
  });
}

TEST(loss_watch, ends_with_its_communicator_while_all_peers_live) {
  rank_world world{2, 4096};
  signal_pipe gone;
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    comm->on_loss([](const std::vector<rank_id>&) {});
    if (!comm->barrier()) return "the barrier failed";
    if (rank == 0 && !gone.wait()) return "the other watch did not end";
    comm.reset();
    if (rank == 1) gone.raise();
    return {};
  });
}

}  // namespace
}  // namespace ftrt::tests
