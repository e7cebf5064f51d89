#include <gtest/gtest.h>

#include <actors/control/snapshot_sets.hpp>
#include <algorithm>
#include <storage/snapshot.hpp>

// Snapshots of ranks that died, found and put together again.
namespace ftrt::actors {
namespace {

constexpr std::uint32_t parts = 2;

state_layout two_tensors() {
  state_layout layout;
  layout.tensors = {{"model.a", dtype::f32, {32}, tensor_section::parameter, 0, 128},
                    {"model.b", dtype::f32, {32}, tensor_section::parameter, 128, 128}};
  layout.arena_bytes = 256;
  return layout;
}

// One incarnation's memory, and its writer.
struct dead_worker {
  explicit dead_worker(std::uint32_t rank) : entry(std::make_shared<host::worker_entry>()) {
    entry->rank = rank_id{rank};
    entry->incarnation = incarnation_id{1};
    entry->snapshots =
        storage::shared_memory::create("snapshots", storage::snapshot_memory_bytes(256)).value();
    entry->dead = true;
    writer.emplace(entry->snapshots, 256);
  }

  void write(std::uint64_t iteration, std::uint64_t generation = 1, std::uint32_t branch = 1) {
    const auto range = part_of(two_tensors(), entry->rank.value(), parts);
    storage::snapshot_header header;
    header.generation = generation_id{generation};
    header.branch = branch_id{branch};
    header.iteration = iteration_id{iteration};
    header.part = entry->rank.value();
    header.parts = parts;
    header.begin_bytes = range.begin_bytes;
    const std::vector<std::byte> content(range.end_bytes - range.begin_bytes,
                                         static_cast<std::byte>(iteration + entry->rank.value()));
    ASSERT_TRUE(writer->write(header, content));
  }

  std::shared_ptr<host::worker_entry> entry;
  std::optional<storage::snapshot_writer> writer;
};

class snapshot_sets : public ::testing::Test {
 protected:
  std::vector<snapshot_set> found(std::uint64_t since = 0, std::uint32_t branch = 1) {
    return complete_sets({a_.entry, b_.entry}, layout_, parts, branch_id{branch},
                         generation_id{since});
  }

  state_layout layout_ = two_tensors();
  dead_worker a_{0};
  dead_worker b_{1};
};

TEST_F(snapshot_sets, the_newest_complete_one_comes_first_and_a_lone_part_does_not_count) {
  for (const std::uint64_t k : {10U, 20U, 30U}) a_.write(k);
  for (const std::uint64_t k : {10U, 20U}) b_.write(k);
  const auto sets = found();
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].iteration, iteration_id{20});
  EXPECT_EQ(sets[1].iteration, iteration_id{10});
}

TEST_F(snapshot_sets, parts_of_two_generations_make_no_set) {
  a_.write(10, 1);
  b_.write(10, 2);
  EXPECT_TRUE(found().empty());
}

TEST_F(snapshot_sets, those_of_a_void_branch_or_of_a_generation_before_it_never_count) {
  for (auto* worker : {&a_, &b_}) {
    worker->write(10, 3, 1);
    worker->write(20, 4, 2);
  }
  ASSERT_EQ(found(4, 2).size(), 1U);
  EXPECT_EQ(found(4, 2)[0].iteration, iteration_id{20});
  EXPECT_TRUE(found(5, 2).empty());
}

TEST_F(snapshot_sets, a_part_that_another_rank_claims_is_no_part) {
  a_.write(10);
  b_.write(10);
  b_.entry->rank = rank_id{0};
  EXPECT_TRUE(found().empty());
}

TEST_F(snapshot_sets, the_parts_are_put_where_they_stood) {
  a_.write(10);
  b_.write(10);
  const auto memory = assemble(layout_, found().front());
  ASSERT_TRUE(memory) << memory.error().describe();
  ASSERT_EQ(memory->size(), 256U);
  for (std::size_t i = 0; i < 256; ++i) {
    ASSERT_EQ(memory->data()[i], static_cast<std::byte>(i < 128 ? 10 : 11)) << i;
  }
}

TEST_F(snapshot_sets, a_damaged_part_is_detected_and_named) {
  a_.write(10);
  b_.write(10);
  // The first slot's content begins behind the page of headers.
  b_.entry->snapshots.data()[4096 + 7] ^= std::byte{1};
  const auto memory = assemble(layout_, found().front());
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, error_code::corrupt);
  EXPECT_NE(memory.error().describe().find("rank 1"), std::string::npos);
}

TEST_F(snapshot_sets, one_that_was_overwritten_since_is_no_damage) {
  a_.write(10);
  b_.write(10);
  const auto sets = found();
  for (std::uint64_t k = 20; k < 60; k += 10) b_.write(k);
  EXPECT_EQ(assemble(layout_, sets.front()).error().code, error_code::aborted);
}

}  // namespace
}  // namespace ftrt::actors
