#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <storage/progress.hpp>
#include <storage/shared_words.hpp>
#include <tests/storage/support.hpp>
#include <thread>

namespace ftrt::storage {
namespace {

using testing::child_process;
using testing::seeded;

shared_memory fresh() {
  return shared_memory::create("progress", progress_memory_bytes()).value();
}

// Every field follows from one number, so that a mixture of two records is seen.
progress_record record_of(std::uint64_t n) {
  progress_record record;
  record.generation = n;
  record.iteration = n;
  record.optimizer_step = n;
  record.loss = static_cast<double>(n);
  record.grad_norm = static_cast<double>(n);
  record.samples = n;
  record.committed_ns = static_cast<std::int64_t>(n);
  return record;
}

bool is_whole(const progress_record& record) {
  const auto n = record.iteration;
  return record.generation == n && record.optimizer_step == n &&
         record.loss == static_cast<double>(n) && record.grad_norm == static_cast<double>(n) &&
         record.samples == n && record.committed_ns == static_cast<std::int64_t>(n);
}

TEST(progress, the_view_shows_what_the_training_thread_said_last) {
  auto memory = fresh();
  progress_writer writer{memory};
  const progress_reader reader{memory};
  EXPECT_EQ(reader.view().phase, train_phase::starting);
  writer.set_generation(generation_id{3});
  writer.begin_iteration(iteration_id{8});
  writer.set_phase(train_phase::all_reduce);
  writer.set_micro_batch(2);
  writer.set_collective_sequence(11);
  const auto view = reader.view();
  EXPECT_EQ(view.generation, generation_id{3});
  EXPECT_EQ(view.iteration, iteration_id{8});
  EXPECT_EQ(view.committed, iteration_id{0});
  EXPECT_EQ(view.phase, train_phase::all_reduce);
  EXPECT_EQ(view.micro_batch, 2u);
  EXPECT_EQ(view.collective_sequence, 11u);
  EXPECT_EQ(view.thread, static_cast<std::uint64_t>(::gettid()));
  EXPECT_GT(view.progress_ns, 0);
}

TEST(progress, tells_the_last_orders_that_were_obeyed) {
  auto memory = fresh();
  progress_writer writer{memory};
  const progress_reader reader{memory};
  EXPECT_TRUE(reader.injuries().empty());
  writer.note_injury(7);
  writer.note_injury(3);
  EXPECT_EQ(reader.injuries(), (std::vector<std::uint64_t>{7, 3}));
  for (std::uint64_t number = 100; number < 200; ++number) writer.note_injury(number);
  const auto last = reader.injuries();
  EXPECT_EQ(last.size(), injuries_kept);
  EXPECT_EQ(std::ranges::count(last, 199U), 1);
  EXPECT_EQ(std::ranges::count(last, 7U), 0);
  EXPECT_EQ(reader.view().phase, train_phase::starting) << "no other word is touched";
  EXPECT_EQ(reader.view().committed, iteration_id{0});
}

TEST(progress, C06_a_thread_that_waits_on_gives_a_sign_and_makes_no_progress) {
  auto memory = fresh();
  progress_writer writer{memory};
  const progress_reader reader{memory};
  EXPECT_EQ(reader.view().waiting_ns, 0);
  writer.set_phase(train_phase::decision);
  const auto before = reader.view();
  writer.wait_on();
  EXPECT_GE(reader.view().waiting_ns, before.progress_ns);
  EXPECT_EQ(reader.view().progress_ns, before.progress_ns);
  EXPECT_EQ(reader.view().phase, train_phase::decision);
}

TEST(progress, state_is_torn_from_begin_apply_to_commit) {
  auto memory = fresh();
  progress_writer writer{memory};
  const progress_reader reader{memory};
  writer.begin_apply();
  EXPECT_TRUE(reader.view().applying);
  EXPECT_EQ(reader.view().committed, iteration_id{0});
  writer.commit(iteration_id{1});
  EXPECT_FALSE(reader.view().applying);
  EXPECT_EQ(reader.view().committed, iteration_id{1});
  writer.reset_committed(iteration_id{0});
  EXPECT_EQ(reader.view().committed, iteration_id{0});
}

TEST(progress, every_call_moves_the_clock_of_progress) {
  auto memory = fresh();
  progress_writer writer{memory};
  const progress_reader reader{memory};
  auto last = reader.view().progress_ns;
  const auto moved = [&] {
    const auto now = reader.view().progress_ns;
    return std::exchange(last, now) < now;
  };
  writer.set_phase(train_phase::compute);
  EXPECT_TRUE(moved());
  writer.begin_iteration(iteration_id{1});
  EXPECT_TRUE(moved());
  writer.set_micro_batch(1);
  EXPECT_TRUE(moved());
  writer.begin_apply();
  EXPECT_TRUE(moved());
  writer.commit(iteration_id{1});
  EXPECT_TRUE(moved());
}

TEST(progress, records_come_out_as_they_went_in_and_in_order) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  EXPECT_FALSE(reader.next());
  auto record = record_of(5);
  record.kind = record_kind::evaluation;
  record.accuracy = 0.975;
  record.skipped = 1;
  record.lr = -0.0;
  record.collective_sequence = 9;
  writer.append(record);
  writer.append(record_of(6));
  const auto first = reader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(std::memcmp(&*first, &record, sizeof record), 0);
  EXPECT_EQ(reader.next()->iteration, 6u);
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.missed(), 0u);
}

TEST(progress, the_bytes_of_an_iteration_go_through_the_ring_in_every_bit) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{0x7ff0000000000001U}, ~std::uint64_t{0}}) {
    auto record = record_of(5);
    set_reduced_bytes(record, bytes);
    writer.append(record);
    EXPECT_EQ(reduced_bytes_in(*reader.next()), bytes);
  }
  progress_record evaluation;
  evaluation.kind = record_kind::evaluation;
  evaluation.accuracy = 0.5;
  EXPECT_EQ(reduced_bytes_in(evaluation), 0U);
}

TEST(progress, a_reader_can_begin_with_the_newest_records) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  reader.seek_newest(3);
  EXPECT_FALSE(reader.next());
  for (std::uint64_t n = 0; n < progress_ring_records + 10; ++n) writer.append(record_of(n));
  reader.seek_newest(3);
  EXPECT_EQ(reader.next()->iteration, progress_ring_records + 7);
  EXPECT_EQ(reader.missed(), 0U);
  reader.seek_newest(~std::uint64_t{0});
  EXPECT_EQ(reader.next()->iteration, 10U);
}

TEST(progress, a_digest_goes_through_the_ring_in_every_bit) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  const digest128 digest{0x8000000000000001U, ~std::uint64_t{0}};
  writer.append(digest_record(generation_id{3}, iteration_id{40}, digest, 77));
  const auto read = reader.next();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, record_kind::digest);
  EXPECT_EQ(read->generation, 3U);
  EXPECT_EQ(read->iteration, 40U);
  EXPECT_EQ(read->step_ns, 77);
  EXPECT_EQ(digest_in(*read), digest);
}

TEST(progress, a_reader_that_fell_behind_skips_to_the_oldest_record_and_counts_the_rest) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  const auto total = 3 * progress_ring_records + 17;
  for (std::uint64_t n = 0; n < total; ++n) writer.append(record_of(n));
  std::uint64_t expected = total - progress_ring_records;
  while (auto record = reader.next()) EXPECT_EQ(record->iteration, expected++);
  EXPECT_EQ(expected, total);
  EXPECT_EQ(reader.missed(), total - progress_ring_records);
}

TEST(progress, a_reader_that_takes_over_goes_on_where_the_other_one_was) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader first{memory};
  for (std::uint64_t n = 0; n < 10; ++n) writer.append(record_of(n));
  for (int i = 0; i < 4; ++i) static_cast<void>(first.next());
  progress_reader second{memory};
  second.seek(first.position());
  EXPECT_EQ(second.next()->iteration, 4u);
}

TEST(progress, a_record_read_while_it_is_overwritten_is_never_a_mixture) {
  auto memory = fresh();
  progress_writer writer{memory};
  progress_reader reader{memory};
  constexpr std::uint64_t total = 40 * progress_ring_records;
  std::thread training{[&] {
    for (std::uint64_t n = 0; n < total; ++n) writer.append(record_of(n));
  }};
  std::uint64_t seen = 0;
  std::uint64_t torn = 0;
  std::uint64_t last = 0;
  while (seen + reader.missed() < total) {
    const auto record = reader.next();
    if (!record) continue;
    torn += is_whole(*record) && (seen == 0 || record->iteration > last) ? 0 : 1;
    last = record->iteration;
    ++seen;
  }
  training.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(reader.position(), total);
}

TEST(progress, the_last_words_of_a_killed_writer_can_be_read) {
  auto memory = fresh();
  progress_reader reader{memory};
  child_process worker{[&] {
    progress_writer writer{memory};
    writer.append(record_of(1));
    writer.begin_apply();
    ::raise(SIGKILL);
    return 1;
  }};
  EXPECT_EQ(worker.wait(), -SIGKILL);
  EXPECT_TRUE(reader.view().applying);
  EXPECT_EQ(reader.next()->iteration, 1u);
  EXPECT_FALSE(reader.next());
}

TEST(progress, a_hostile_writer_can_neither_crash_nor_hold_up_the_reader) {
  seeded random;
  auto memory = fresh();
  const progress_writer formatted{memory};
  progress_reader reader{memory};
  const auto words = memory.size() / sizeof(std::uint64_t);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 2000; ++i) word_at(memory.data(), random.below(words)).store(random());
    // Numbers that are near what the reader expects do more harm than random ones.
    const auto near = reader.position() + random.below(3 * progress_ring_records);
    word_at(memory.data(), 8).store(random.below(4) == 0 ? random() : near);
    const auto view = reader.view();
    EXPECT_LE(view.phase, train_phase::finished);
    std::uint64_t calls = 0;
    while (auto record = reader.next()) {
      EXPECT_TRUE(record->kind == record_kind::iteration ||
                  record->kind == record_kind::evaluation);
      ASSERT_LE(++calls, progress_ring_records);
    }
  }
}

TEST(progress, names_of_phases_are_total) {
  EXPECT_STREQ(to_string(train_phase::all_reduce), "all_reduce");
  EXPECT_STREQ(to_string(train_phase::finished), "finished");
  EXPECT_STREQ(to_string(static_cast<train_phase>(77)), "unknown");
}

}  // namespace
}  // namespace ftrt::storage
