#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <runtime/communicator/communicator.hpp>
#include <string>
#include <tests/runtime/communicator/ranks_fixture.hpp>
#include <thread>
#include <vector>

namespace ftrt::tests {
namespace {

using mapping = rank_world::mapping;

std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// What `rank` contributes: numbers of many magnitudes, so that the order of a sum shows in its
// bits.
template <class T>
std::vector<T> contribution(std::uint64_t seed, std::uint32_t rank, std::uint64_t count) {
  std::uint64_t state = seed * 1000 + rank;
  std::vector<T> values(count);
  for (T& value : values) {
    const auto bits = static_cast<std::int64_t>(splitmix(state));
    if constexpr (std::is_integral_v<T>) {
      value = bits;
    } else {
      value = static_cast<T>(std::ldexp(static_cast<double>(bits >> 11), -60 + int(bits & 31)));
    }
  }
  return values;
}

template <class T>
std::vector<T> serial(std::uint64_t seed, std::uint32_t world_size, std::uint64_t count,
                      reduce_op op) {
  std::vector<T> total = contribution<T>(seed, 0, count);
  for (std::uint32_t rank = 1; rank < world_size; ++rank) {
    const std::vector<T> next = contribution<T>(seed, rank, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (op == reduce_op::max) {
        total[i] = std::max(total[i], next[i]);
      } else if constexpr (std::is_integral_v<T>) {
        total[i] = static_cast<T>(static_cast<std::uint64_t>(total[i]) +
                                  static_cast<std::uint64_t>(next[i]));
      } else {
        total[i] += next[i];
      }
    }
  }
  return total;
}

template <class T>
dtype type_of();
template <>
dtype type_of<float>() {
  return dtype::f32;
}
template <>
dtype type_of<double>() {
  return dtype::f64;
}
template <>
dtype type_of<std::int64_t>() {
  return dtype::i64;
}

constexpr int rounds = 2;

// Regions of odd counts and at odd distances, short and long, all in flight at once.
template <class T>
std::string reduces_to_serial_bits(rank_world& world, std::uint32_t rank, mapping how,
                                   const std::vector<std::uint64_t>& counts, reduce_op op) {
  auto comm = world.join(rank, how);
  std::vector<bucket_region> regions;
  std::uint64_t offset = 0;
  for (std::uint64_t count : counts) {
    regions.push_back({offset, count, type_of<T>()});
    offset = align_up(offset + count * sizeof(T), 64) + 64 * (count % 3);
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const auto mine = contribution<T>(round * 100 + i, rank, counts[i]);
      std::copy(mine.begin(), mine.end(), world.bucket_as<T>(rank, regions[i].offset_bytes));
      if (auto begun = comm->begin_all_reduce(regions[i], op); !begun) {
        return begun.error().describe();
      }
    }
    if (auto done = comm->finish_reductions(); !done) return done.error().describe();
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const auto expected = serial<T>(round * 100 + i, world.world_size(), counts[i], op);
      const T* found = world.bucket_as<T>(rank, regions[i].offset_bytes);
      if (!std::equal(expected.begin(), expected.end(), found)) {
        return "round " + std::to_string(round) + ", region " + std::to_string(i) + " differs";
      }
    }
  }
  const std::uint64_t completed = rounds * regions.size();
  if (comm->sequence() != completed) return "sequence " + std::to_string(comm->sequence());
  return {};
}

const std::vector<std::uint64_t> odd_counts{1,    0,     17, 1000, 4095, 4097, 33333,
                                            5000, 65537, 16, 3,    2049, 20011};

template <class T>
void check_world(std::uint32_t world_size, reduce_op op, mapping how) {
  SCOPED_TRACE("ranks " + std::to_string(world_size) + ", " + std::string(to_string(type_of<T>())) +
               (op == reduce_op::sum ? ", sum" : ", max"));
  rank_world world{world_size, 2 << 20};
  const auto program = [&](std::uint32_t rank) {
    return reduces_to_serial_bits<T>(world, rank, how, odd_counts, op);
  };
  if (how == mapping::own) return expect_all_well(world_size, program);
  expect_all_well_in_threads(world_size, program);
}

TEST(all_reduce, equals_a_serial_sum_in_rank_order_bit_for_bit) {
#ifdef FTRT_SANITIZED
  const std::vector<std::uint32_t> worlds{1, 2, 3, 8};  // twenty times slower
#else
  const std::vector<std::uint32_t> worlds{1, 2, 3, 4, 5, 6, 7, 8};
#endif
  for (std::uint32_t ranks : worlds) {
    check_world<float>(ranks, reduce_op::sum, mapping::own);
    check_world<double>(ranks, reduce_op::sum, mapping::own);
    check_world<std::int64_t>(ranks, reduce_op::sum, mapping::own);
  }
}

TEST(all_reduce, takes_the_maximum) {
  for (std::uint32_t ranks : {1, 2, 3, 5}) {
    check_world<float>(ranks, reduce_op::max, mapping::own);
    check_world<double>(ranks, reduce_op::max, mapping::own);
    check_world<std::int64_t>(ranks, reduce_op::max, mapping::own);
  }
}

TEST(all_reduce, works_among_threads_of_one_process) {
  for (std::uint32_t ranks : {2, 3, 4}) check_world<float>(ranks, reduce_op::sum, mapping::shared);
}

TEST(all_reduce, of_a_nan_is_a_nan_on_every_rank) {
  for (std::uint64_t count : {5, 50000}) {
    rank_world world{3, 1 << 20};
    expect_all_well(3, [&](std::uint32_t rank) -> std::string {
      auto comm = world.join(rank);
      for (std::uint32_t who = 0; who < 3; ++who) {
        float* mine = world.bucket_as<float>(rank);
        std::fill_n(mine, count, static_cast<float>(rank));
        if (rank == who) mine[3] = std::numeric_limits<float>::quiet_NaN();
        auto done = comm->all_reduce({0, count, dtype::f32}, reduce_op::max);
        if (!done) return done.error().describe();
        if (mine[3] == mine[3]) return "the NaN of rank " + std::to_string(who) + " was lost";
        if (mine[4] != 2.0F) return "the maximum is wrong";
      }
      return {};
    });
  }
}

TEST(all_reduce, does_not_mind_ranks_that_come_late) {
  rank_world world{4, 1 << 20};
  expect_all_well(4, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    std::mt19937 random{rank};
    for (int round = 0; round < 200; ++round) {
      // Not to wait for anything: to be uneven.
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      const std::uint64_t count = 100 + 700 * (round % 13);
      std::fill_n(world.bucket_as<float>(rank), count, static_cast<float>(round + rank));
      auto done = comm->all_reduce({0, count, dtype::f32}, reduce_op::sum);
      if (!done) return done.error().describe();
      const float expected = static_cast<float>(4 * round + 6);
      const float* found = world.bucket_as<float>(rank);
      if (std::any_of(found, found + count, [&](float x) { return x != expected; })) {
        return "round " + std::to_string(round) + " is wrong";
      }
    }
    return {};
  });
}

TEST(all_reduce, refuses_regions_that_are_not_in_every_bucket) {
  rank_world world{1, 4096};
  auto comm = world.join(0);
  const auto code_of = [&](const bucket_region& region) {
    auto done = comm->all_reduce(region, reduce_op::sum);
    return done ? error_code{} : done.error().code;
  };
  EXPECT_EQ(code_of({0, 1024, dtype::f32}), error_code{});
  EXPECT_EQ(code_of({0, 1025, dtype::f32}), error_code::invalid_argument);
  EXPECT_EQ(code_of({4096, 1, dtype::f32}), error_code::invalid_argument);
  EXPECT_EQ(code_of({4160, 0, dtype::f32}), error_code::invalid_argument);
  EXPECT_EQ(code_of({4, 1, dtype::f32}), error_code::invalid_argument);
  EXPECT_EQ(code_of({0, 1, dtype::bf16}), error_code::invalid_argument);
  EXPECT_EQ(code_of({64, std::uint64_t{1} << 62, dtype::f64}), error_code::invalid_argument);
  EXPECT_EQ(code_of({std::uint64_t{0} - 64, 1, dtype::f64}), error_code::invalid_argument);
  EXPECT_EQ(code_of({0, 1, dtype::f64}), error_code{}) << "a refusal must not end the generation";
}

TEST(all_reduce, of_ranks_that_call_different_collectives_fails_instead_of_adding_them_up) {
  const auto differently = [](communicator& comm) -> std::vector<result<void>> {
    const bool first = comm.rank().value() == 0;
    return {comm.begin_all_reduce({0, 16, dtype::f32}, reduce_op::sum),
            comm.begin_all_reduce({first ? 128U : 64U, 16, dtype::f32}, reduce_op::sum),
            comm.finish_reductions()};
  };
  rank_world world{2, 4096};
  expect_all_well(2, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    const auto results = differently(*comm);
    return results.back() ? "not noticed" : "";
  });
}

TEST(all_reduce, keeps_hundreds_of_regions_in_flight) {
  rank_world world{3, 1 << 20};
  expect_all_well(3, [&](std::uint32_t rank) -> std::string {
    auto comm = world.join(rank);
    for (int round = 0; round < 5; ++round) {
      std::fill_n(world.bucket_as<float>(rank), 16 * 500, static_cast<float>(rank + 1));
      for (std::uint64_t i = 0; i < 500; ++i) {
        auto begun = comm->begin_all_reduce({64 * i, 16, dtype::f32}, reduce_op::sum);
        if (!begun) return begun.error().describe();
      }
      if (auto done = comm->finish_reductions(); !done) return done.error().describe();
      const float* found = world.bucket_as<float>(rank);
      if (std::any_of(found, found + 16 * 500, [](float x) { return x != 6.0F; })) return "wrong";
    }
    return {};
  });
}

TEST(all_reduce, refuses_a_region_that_overlaps_one_in_flight) {
  rank_world world{1, 4096};
  auto comm = world.join(0);
  ASSERT_TRUE(comm->begin_all_reduce({0, 100, dtype::f32}, reduce_op::sum));
  auto second = comm->begin_all_reduce({384, 100, dtype::f32}, reduce_op::sum);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, error_code::invalid_argument);
  ASSERT_TRUE(comm->finish_reductions());
  EXPECT_TRUE(comm->all_reduce({384, 100, dtype::f32}, reduce_op::sum));
}

TEST(chunk_of, covers_a_region_once_in_whole_cache_lines) {
  for (dtype type : {dtype::f32, dtype::f64}) {
    for (std::uint64_t count : {0, 1, 15, 16, 17, 1000, 4099}) {
      for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
        const bucket_region region{0, count, type};
        std::uint64_t at = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const region_chunk chunk = chunk_of(region, rank_id{rank}, ranks);
          EXPECT_EQ(chunk.begin, at);
          EXPECT_LE(chunk.begin, chunk.end);
          EXPECT_TRUE(chunk.end == count || chunk.end * size_of(type) % 64 == 0);
          EXPECT_LE(chunk.end - chunk.begin, count / ranks + 32);
          at = chunk.end;
        }
        EXPECT_EQ(at, count);
      }
    }
  }
}

}  // namespace
}  // namespace ftrt::tests
