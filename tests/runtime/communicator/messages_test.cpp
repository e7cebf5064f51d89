#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <runtime/communicator/communicator.hpp>
#include <string>
#include <tests/runtime/communicator/ranks_fixture.hpp>
#include <vector>

namespace ftrt::tests {
namespace {

using mapping = rank_world::mapping;

std::vector<std::byte> message(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random{seed};
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t eight = random();
    std::memcpy(bytes.data() + at, &eight, std::min<std::size_t>(8, size - at));
  }
  return bytes;
}

// Around chunks and rings of 32 and 64 KiB.
const std::vector<std::size_t> sizes{0, 1, 4095, 32768, 32769, 65536, 200000, 1 << 20};

std::string passes_messages_round_the_ring(communicator& comm) {
  const std::uint32_t count = comm.world_size();
  const std::uint32_t rank = comm.rank().value();
  const rank_id next{(rank + 1) % count};
  const rank_id previous{(rank + count - 1) % count};
  for (std::size_t size : sizes) {
    std::vector<std::byte> got(size);
    const auto mine = message(size + rank, size);
    // The even ones send first, so that no ring of waiting senders closes.
    const auto send = [&] { return comm.send(mine, next); };
    const auto recv = [&] { return comm.recv(got, previous); };
    auto first = rank % 2 == 0 ? send() : recv();
    if (!first) return first.error().describe();
    auto second = rank % 2 == 0 ? recv() : send();
    if (!second) return second.error().describe();
    if (got != message(size + previous.value(), size))
      return "wrong bytes of " + std::to_string(size);
  }
  return comm.sequence() == 2 * sizes.size() ? "" : "sequence " + std::to_string(comm.sequence());
}

TEST(messages, of_any_size_arrive_whole_and_in_order) {
  for (std::uint32_t count : {2, 4, 6}) {
    rank_world world{count, 4096};
    expect_all_well(count, [&](std::uint32_t rank) {
      auto comm = world.join(rank);
      return passes_messages_round_the_ring(*comm);
    });
  }
}

TEST(messages, pass_among_threads_of_one_process) {
  rank_world world{4, 4096};
  expect_all_well_in_threads(4, [&](std::uint32_t rank) {
    auto comm = world.join(rank, mapping::shared);
    return passes_messages_round_the_ring(*comm);
  });
}

TEST(messages, that_fit_a_ring_do_not_wait_for_their_receiver) {
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    const rank_id other{1 - rank};
    std::vector<std::byte> got(100000);
    if (auto sent = comm->send(message(rank, got.size()), other); !sent) {
      return sent.error().describe();
    }
    if (auto come = comm->recv(got, other); !come) return come.error().describe();
    return got == message(other.value(), got.size()) ? "" : "wrong bytes";
  });
}

TEST(messages, of_another_size_than_expected_are_refused_on_both_sides) {
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    std::vector<std::byte> bytes(rank == 0 ? 300000 : 299999);
    auto done = rank == 0 ? comm->send(bytes, rank_id{1}) : comm->recv(bytes, rank_id{0});
    if (done) return "not refused";
    const error_code expected = rank == 0 ? error_code::aborted : error_code::invalid_argument;
    return done.error().code == expected ? "" : done.error().describe();
  });
}

TEST(messages, to_ranks_that_do_not_exist_are_refused) {
  rank_world world{2, 4096};
  auto comm = world.join(0);
  std::vector<std::byte> bytes(8);
  EXPECT_EQ(comm->send(bytes, rank_id{0}).error().code, error_code::invalid_argument);
  EXPECT_EQ(comm->send(bytes, rank_id{2}).error().code, error_code::invalid_argument);
  EXPECT_EQ(comm->recv(bytes, rank_id{7}).error().code, error_code::invalid_argument);
  EXPECT_EQ(comm->broadcast(bytes, rank_id{2}).error().code, error_code::invalid_argument);
}

std::string broadcasts_from_every_root(communicator& comm) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t size : sizes) {
      const rank_id root{static_cast<std::uint32_t>((size + round) % comm.world_size())};
      const auto expected = message(size + round, size);
      std::vector<std::byte> bytes = comm.rank() == root ? expected : message(99, size);
      if (auto done = comm.broadcast(bytes, root); !done) return done.error().describe();
      if (bytes != expected) return "wrong bytes of " + std::to_string(size);
    }
  }
  return {};
}

TEST(broadcast, brings_the_roots_bytes_to_all) {
  for (std::uint32_t count : {1, 2, 3, 8}) {
    rank_world world{count, 4096};
    expect_all_well(count, [&](std::uint32_t rank) {
      auto comm = world.join(rank);
      return broadcasts_from_every_root(*comm);
    });
  }
}

TEST(broadcast, works_among_threads_of_one_process) {
  rank_world world{3, 4096};
  expect_all_well_in_threads(3, [&](std::uint32_t rank) {
    auto comm = world.join(rank, mapping::shared);
    return broadcasts_from_every_root(*comm);
  });
}

// reduce_scatter, then all_gather, is an all-reduce.
std::string scatters_and_gathers(rank_world& world, std::uint32_t rank, mapping how) {
  auto comm = world.join(rank, how);
  const std::uint32_t count = world.world_size();
  for (std::uint64_t elements : {0, 1, 100, 5000, 70001}) {
    const bucket_region region{128, elements, dtype::f64};
    double* mine = world.bucket_as<double>(rank, 128);
    for (std::uint64_t i = 0; i < elements; ++i) mine[i] = static_cast<double>(i * (rank + 1));
    if (auto done = comm->reduce_scatter(region, reduce_op::sum); !done) {
      return done.error().describe();
    }
    const double factor = count * (count + 1) / 2;
    const region_chunk chunk = chunk_of(region, rank_id{rank}, count);
    for (std::uint64_t i = chunk.begin; i < chunk.end; ++i) {
      if (mine[i] != factor * static_cast<double>(i)) return "reduce_scatter is wrong";
    }
    if (auto done = comm->all_gather(region); !done) return done.error().describe();
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (mine[i] != factor * static_cast<double>(i)) return "all_gather is wrong";
    }
  }
  return {};
}

TEST(reduce_scatter, then_all_gather_is_an_all_reduce) {
  for (std::uint32_t count : {1, 2, 3, 5, 8}) {
    rank_world world{count, 1 << 20};
    expect_all_well(
        count, [&](std::uint32_t rank) { return scatters_and_gathers(world, rank, mapping::own); });
  }
}

TEST(reduce_scatter, works_among_threads_of_one_process) {
  rank_world world{3, 1 << 20};
  expect_all_well_in_threads(
      3, [&](std::uint32_t rank) { return scatters_and_gathers(world, rank, mapping::shared); });
}

TEST(barrier, lets_nobody_pass_before_all_have_come) {
  struct counter {
    std::atomic<std::uint32_t> come;
  };
  shared_object<counter> ranks;
  rank_world world{5, 4096};
  expect_all_well(5, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    for (std::uint32_t round = 1; round <= 200; ++round) {
      ranks->come.fetch_add(1);
      if (auto met = comm->barrier(); !met) return met.error().describe();
      if (ranks->come.load() < 5 * round) return "passed too early";
    }
    return {};
  });
}

std::string exchanges_words(communicator& comm, std::uint64_t rounds) {
  const std::uint32_t count = comm.world_size();
  std::vector<std::byte> all(256 * count);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t key = round * 5;  // growing, not dense
    const std::size_t size = 1 + round * 7 % 256;
    const auto words = std::span{all}.first(size * count);
    auto done = comm.exchange(key, message(key * 8 + comm.rank().value(), size), words);
    if (!done) return done.error().describe();
    for (int again = 0; again < 2; ++again) {
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        const auto expected = message(key * 8 + rank, size);
        if (!std::equal(expected.begin(), expected.end(), words.begin() + rank * size)) {
          return "wrong word of rank " + std::to_string(rank);
        }
      }
      std::fill(all.begin(), all.end(), std::byte{0});
      if (!comm.exchanged(key, words)) return "the exchange is not there any more";
    }
    if (comm.exchanged(key + 1, words)) return "an exchange that never was is there";
  }
  return {};
}

TEST(exchange, gathers_the_words_of_all_and_keeps_them) {
  for (std::uint32_t count : {1, 2, 4, 7}) {
    rank_world world{count, 4096};
    expect_all_well(count, [&](std::uint32_t rank) {
      auto comm = world.join(rank);
      return exchanges_words(*comm, 100);
    });
  }
}

TEST(exchange, works_among_threads_of_one_process) {
  rank_world world{3, 4096};
  expect_all_well_in_threads(3, [&](std::uint32_t rank) {
    auto comm = world.join(rank, mapping::shared);
    return exchanges_words(*comm, 50);
  });
}

TEST(exchange, is_still_there_after_an_abort) {
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    if (auto wrong = exchanges_words(*comm, 3); !wrong.empty()) return wrong;
    comm->abort();
    std::vector<std::byte> all(2 * 15);  // 1 + 2 * 7: the size of round 2
    if (!comm->exchanged(10, all)) return "gone after the abort";
    return std::equal(all.begin() + 15, all.end(), message(10 * 8 + 1, 15).begin()) ? "" : "wrong";
  });
}

TEST(exchange, refuses_words_that_are_too_long_and_keys_that_do_not_grow) {
  rank_world world{1, 4096};
  auto comm = world.join(0);
  std::vector<std::byte> word(257);
  EXPECT_EQ(comm->exchange(1, word, word).error().code, error_code::invalid_argument);
  const auto eight = std::span{word}.first(8);
  EXPECT_EQ(comm->exchange(1, std::span{word}.first(4), eight).error().code,
            error_code::invalid_argument);
  EXPECT_TRUE(comm->exchange(1, eight, eight));
  EXPECT_EQ(comm->exchange(1, eight, eight).error().code, error_code::invalid_argument);
  EXPECT_TRUE(comm->exchange(2, eight, eight));
}

TEST(exchange, with_different_keys_is_an_error_on_every_rank) {
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    std::vector<std::byte> all(16);
    return comm->exchange(1 + rank, std::span{all}.first(8), all) ? "not noticed" : "";
  });
}

}  // namespace
}  // namespace ftrt::tests
