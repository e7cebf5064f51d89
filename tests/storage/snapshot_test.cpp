#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <storage/digest.hpp>
#include <storage/shared_words.hpp>
#include <storage/snapshot.hpp>
#include <tests/storage/support.hpp>
#include <thread>

namespace ftrt::storage {
namespace {

using testing::child_process;
using testing::seeded;
using testing::signal_pipe;

constexpr std::uint64_t arena = 10'000;

shared_memory fresh(std::uint64_t bytes = arena) {
  return shared_memory::create("snapshot", snapshot_memory_bytes(bytes)).value();
}

snapshot_header header_of(std::uint64_t iteration) {
  snapshot_header header;
  header.generation = generation_id{2};
  header.branch = branch_id{1};
  header.iteration = iteration_id{iteration};
  header.parts = 1;
  return header;
}

std::vector<std::byte> content_of(std::uint64_t iteration, std::size_t bytes = arena) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(iteration));
}

bool all_bytes_are(std::span<const std::byte> bytes, std::uint64_t iteration) {
  return std::ranges::all_of(
      bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(iteration); });
}

TEST(snapshot, a_written_one_is_found_held_and_read) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  auto header = header_of(7);
  header.part = 1;
  header.parts = 3;
  header.begin_bytes = 64;
  const auto slot = writer.write(header, content_of(7, 1000)).value();
  const auto ready = list_ready(memory, arena);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].slot, slot);
  EXPECT_EQ(ready[0].header.iteration, iteration_id{7});
  const auto held = held_snapshot::hold(memory, arena, slot);
  ASSERT_TRUE(held.has_value()) << held.error().describe();
  EXPECT_EQ(held->header().generation, generation_id{2});
  EXPECT_EQ(held->header().branch, branch_id{1});
  EXPECT_EQ(held->header().part, 1u);
  EXPECT_EQ(held->header().parts, 3u);
  EXPECT_EQ(held->header().begin_bytes, 64u);
  EXPECT_EQ(held->header().length_bytes, 1000u);
  EXPECT_EQ(held->content().size(), 1000u);
  EXPECT_TRUE(all_bytes_are(held->content(), 7));
}

TEST(snapshot, a_damaged_one_is_told_by_its_digest) {
  constexpr std::uint64_t large = 200'000;  // more than is copied at a time
  auto memory = fresh(large);
  snapshot_writer writer{memory, large};
  const auto slot = writer.write(header_of(7), content_of(7, large)).value();
  const auto held = held_snapshot::hold(memory, large, slot).value();
  EXPECT_EQ(held.header().digest, digest_of(content_of(7, large)));
  EXPECT_TRUE(held.verify());
  auto* last = const_cast<std::byte*>(held.content().data()) + large - 1;
  *last ^= std::byte{1};
  EXPECT_FALSE(held.verify());
}

TEST(snapshot, the_oldest_ready_slot_is_the_one_that_is_overwritten) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(writer.write(header_of(n), content_of(n)));
  const auto ready = list_ready(memory, arena);
  ASSERT_EQ(ready.size(), snapshot_slots);
  EXPECT_EQ(ready[0].header.iteration, iteration_id{5});
  EXPECT_EQ(ready[3].header.iteration, iteration_id{2});
  // After a rollback iterations go back, and the new ones must not be taken for old.
  ASSERT_TRUE(writer.write(header_of(1), content_of(1)));
  const auto after = list_ready(memory, arena);
  EXPECT_EQ(after[0].header.iteration, iteration_id{5});
  EXPECT_EQ(after[3].header.iteration, iteration_id{1});
}

TEST(snapshot, a_held_slot_is_never_overwritten_and_is_ready_again_after) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  const auto slot = writer.write(header_of(1), content_of(1)).value();
  {
    const auto held = held_snapshot::hold(memory, arena, slot).value();
    for (std::uint64_t n = 2; n < 20; ++n) ASSERT_TRUE(writer.write(header_of(n), content_of(n)));
    EXPECT_TRUE(all_bytes_are(held.content(), 1));
    EXPECT_EQ(held_snapshot::hold(memory, arena, slot).error().code, error_code::busy);
    EXPECT_EQ(list_ready(memory, arena).size(), snapshot_slots - 1);
  }
  EXPECT_EQ(list_ready(memory, arena).size(), snapshot_slots);
}

TEST(snapshot, two_slots_are_left_to_the_writer_whatever_readers_want) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  std::vector<held_snapshot> held;
  for (std::uint64_t n : {3, 2}) {
    const auto slot = writer.write(header_of(n), content_of(n)).value();
    held.push_back(held_snapshot::hold(memory, arena, slot).value());
  }
  ASSERT_EQ(held.size(), max_held_slots);
  for (std::uint64_t n = 4; n < 20; ++n) {
    ASSERT_TRUE(writer.write(header_of(n), content_of(n)));
    const auto ready = list_ready(memory, arena);
    EXPECT_EQ(ready.front().header.iteration, iteration_id{n});
    EXPECT_EQ(ready.size(), n == 4 ? 1u : 2u) << "the one before it stays whole";
    for (const auto& each : ready) {
      EXPECT_EQ(held_snapshot::hold(memory, arena, each.slot).error().code, error_code::busy);
    }
  }
  EXPECT_TRUE(all_bytes_are(held[0].content(), 3));
  EXPECT_TRUE(all_bytes_are(held[1].content(), 2));
  auto moved = std::move(held[1]);
  held.clear();
  const auto newest = list_ready(memory, arena).front();
  EXPECT_EQ(newest.header.iteration, iteration_id{19});
  EXPECT_TRUE(held_snapshot::hold(memory, arena, newest.slot)) << "a hold was given back";
  EXPECT_TRUE(all_bytes_are(moved.content(), 2));
}

TEST(snapshot, a_writer_always_finds_a_slot_while_holds_come_and_go) {
  auto memory = fresh();
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  snapshot_writer writer{memory, arena};
  ASSERT_TRUE(writer.write(header_of(1), content_of(1)));
  std::thread training{[&] {
    for (std::uint64_t n = 2; !stop; ++n) {
      if (!writer.write(header_of(n), content_of(n, 64))) ++refused;
    }
  }};
  seeded random;
  std::vector<held_snapshot> held;
  for (int taken = 0; taken < 20'000;) {
    const auto slot = static_cast<std::uint32_t>(random.below(snapshot_slots));
    if (auto one = held_snapshot::hold(memory, arena, slot)) {
      held.push_back(std::move(*one));
      ++taken;
    }
    ASSERT_LE(held.size(), max_held_slots);
    if (!held.empty() && random.below(2) == 0) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random.below(held.size())));
    }
  }
  stop = true;
  training.join();
  EXPECT_EQ(refused, 0);
}

TEST(snapshot, a_held_one_can_be_looked_at_and_tells_when_it_is_overwritten) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  const auto slot = writer.write(header_of(1), content_of(1)).value();
  auto held = std::optional{held_snapshot::hold(memory, arena, slot).value()};
  const auto view = snapshot_view::look(memory, arena, slot).value();
  EXPECT_TRUE(view.is_held());
  EXPECT_EQ(view.header().iteration, iteration_id{1});
  EXPECT_TRUE(all_bytes_are(view.content(), 1));
  ASSERT_EQ(list_whole(memory, arena).size(), 1u);
  EXPECT_TRUE(list_ready(memory, arena).empty());
  for (std::uint64_t n = 2; n < 9; ++n) ASSERT_TRUE(writer.write(header_of(n), content_of(n)));
  EXPECT_TRUE(view.is_current());
  held.reset();
  EXPECT_TRUE(view.is_current()) << "released, it is still the same";
  ASSERT_TRUE(writer.write(header_of(9), content_of(9)));
  EXPECT_FALSE(view.is_current()) << "it was the oldest";
}

TEST(snapshot, free_slots_and_slots_that_do_not_exist_cannot_be_held) {
  auto memory = fresh();
  const snapshot_writer writer{memory, arena};
  EXPECT_EQ(held_snapshot::hold(memory, arena, 0).error().code, error_code::not_found);
  EXPECT_EQ(held_snapshot::hold(memory, arena, 3).error().code, error_code::not_found);
  EXPECT_EQ(held_snapshot::hold(memory, 1 << 20, 0).error().code, error_code::corrupt);
  EXPECT_TRUE(list_ready(memory, arena).empty());
}

TEST(snapshot, content_that_does_not_fit_is_refused) {
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  EXPECT_FALSE(writer.write(header_of(1), content_of(1, arena + 1)));
  auto header = header_of(1);
  header.begin_bytes = 1;
  EXPECT_FALSE(writer.write(header, content_of(1)));
  header = header_of(1);
  header.parts = 0;
  EXPECT_FALSE(writer.write(header, content_of(1)));
  EXPECT_TRUE(list_ready(memory, arena).empty());
}

TEST(snapshot, an_absurd_arena_asks_for_an_impossible_size_instead_of_a_small_one) {
  EXPECT_FALSE(shared_memory::create("x", snapshot_memory_bytes(~std::uint64_t{0})));
  EXPECT_FALSE(shared_memory::create("x", snapshot_memory_bytes(~std::uint64_t{0} / 3)));
}

TEST(snapshot, the_slot_of_a_worker_killed_in_mid_write_is_never_listed_or_held) {
  // Big enough that the copy takes a while; the kill falls somewhere into it.
  constexpr std::uint64_t big = 8u << 20;
  seeded random;
  int torn = 0;
  for (int round = 0; round < 20; ++round) {
    auto memory = fresh(big);
    const signal_pipe begun;
    child_process worker{[&] {
      snapshot_writer writer{memory, big};
      const auto one = content_of(1, big);
      const auto two = content_of(2, big);
      static_cast<void>(writer.write(header_of(1), one));
      begun.say();
      for (std::uint64_t n = 1;; ++n)
        static_cast<void>(writer.write(header_of(n), n % 2 ? one : two));
      return 0;
    }};
    begun.wait();
    // A random moment, not an event; told in time, since yields take as long as the machine is
    // busy.
    std::this_thread::sleep_for(std::chrono::microseconds{random.below(10'000)});
    worker.kill();
    const auto ready = list_ready(memory, big);
    torn += ready.size() < 3 ? 1 : 0;
    ASSERT_FALSE(ready.empty());
    for (const auto& found : ready) {
      const auto held = held_snapshot::hold(memory, big, found.slot);
      ASSERT_TRUE(held.has_value()) << held.error().describe();
      const auto n = held->header().iteration.value();
      EXPECT_TRUE(all_bytes_are(held->content(), n % 2 ? 1 : 2)) << "slot of iteration " << n;
    }
  }
  RecordProperty("torn_slots", torn);
}

TEST(snapshot, a_reader_sees_whole_snapshots_while_the_worker_goes_on_writing) {
  auto memory = fresh();
  std::atomic<bool> stop{false};
  snapshot_writer writer{memory, arena};
  ASSERT_TRUE(writer.write(header_of(1), content_of(1)));
  std::thread training{[&] {
    for (std::uint64_t n = 2; !stop; ++n) {
      // One reader holds one slot, and could hold no more than two: busy would be a bug.
      FTRT_ASSERT(writer.write(header_of(n), content_of(n)).has_value());
    }
  }};
  int held_count = 0;
  while (held_count < 2000) {
    for (const auto& found : list_ready(memory, arena)) {
      const auto held = held_snapshot::hold(memory, arena, found.slot);
      if (!held) continue;  // overwritten since it was listed
      ++held_count;
      ASSERT_TRUE(all_bytes_are(held->content(), held->header().iteration.value()));
    }
  }
  stop = true;
  training.join();
}

TEST(snapshot, a_hostile_header_is_refused_and_never_read_past_its_slot) {
  seeded random;
  auto memory = fresh();
  snapshot_writer writer{memory, arena};
  for (int round = 0; round < 20'000; ++round) {
    word_at(memory.data(), random.below(48))
        .store(random.below(2) == 0 ? random() : random.below(20'000));
    const auto slot = static_cast<std::uint32_t>(random.below(snapshot_slots));
    if (random.below(8) == 0) static_cast<void>(writer.write(header_of(1), content_of(1)));
    for (const auto& found : list_ready(memory, arena)) {
      ASSERT_LE(found.header.begin_bytes + found.header.length_bytes, arena);
    }
    const auto held = held_snapshot::hold(memory, arena, slot);
    if (!held) continue;
    ASSERT_LE(held->content().size(), arena);
    ASSERT_LT(held->header().part, held->header().parts);
    static_cast<void>(std::accumulate(held->content().begin(), held->content().end(), 0u,
                                      [](unsigned sum, std::byte b) { return sum + unsigned(b); }));
  }
}

}  // namespace
}  // namespace ftrt::storage
