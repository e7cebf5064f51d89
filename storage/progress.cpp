#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>
#include <storage/progress.hpp>
#include <storage/shared_words.hpp>

namespace ftrt::storage {
namespace {

// Word numbers of the page. Each value has its own word and is right by itself; the two that belong
// together (committed, applying) are written in the order that errs on the side of "torn".
enum word : std::size_t {
  word_phase = 0,
  word_generation,
  word_iteration,
  word_committed,
  word_micro_batch,
  word_collective_sequence,
  word_progress_ns,
  word_applying,
  word_appended = 8,     // records written so far; a cache line of its own
  word_waiting_ns = 16,  // and another one
  word_thread = 24,      // written once
  word_injured = 32,     // orders obeyed so far; their numbers stand behind it
  word_collective_begun = 72,
  word_collective_bytes,
};

constexpr std::size_t page_words = 512;
constexpr std::size_t payload_words = 15;
// One word says whose turn the slot is: 2n+1 while record n is written, 2n+2 once it stands.
constexpr std::size_t slot_words = 16;
using payload = std::array<std::uint64_t, payload_words>;
static_assert(sizeof(payload) == sizeof(progress_record));
static_assert(1 + payload_words <= slot_words);

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void store(std::byte* base, std::size_t index, std::uint64_t value) {
  word_at(base, index).store(value, std::memory_order_release);
}

std::uint64_t load(const std::byte* base, std::size_t index) {
  return word_at(base, index).load(std::memory_order_acquire);
}

void touch(std::byte* base) {
  store(base, word_progress_ns, monotonic_ns());
}

constexpr std::size_t slot_of(std::uint64_t record) {
  return page_words + static_cast<std::size_t>(record % progress_ring_records) * slot_words;
}

// Release stores of the payload and acquire loads of it stand in for the fences of a textbook
// seqlock: a reader that sees one new word also sees the odd mark that was set before it. On x86
// they are plain moves, and thread sanitizer understands them.
void write_slot(std::byte* base, std::uint64_t record, const payload& words) {
  const auto slot = slot_of(record);
  word_at(base, slot).store(2 * record + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < payload_words; ++i) store(base, slot + 1 + i, words[i]);
  store(base, slot, 2 * record + 2);
}

std::optional<progress_record> read_slot(const std::byte* base, std::uint64_t record) {
  const auto slot = slot_of(record);
  const auto whole = 2 * record + 2;
  if (load(base, slot) != whole) return std::nullopt;
  payload words;
  for (std::size_t i = 0; i < payload_words; ++i) words[i] = load(base, slot + 1 + i);
  if (word_at(base, slot).load(std::memory_order_relaxed) != whole) return std::nullopt;
  // The kind is an enumeration: judge it as a number before it becomes one.
  const auto kind = static_cast<std::uint32_t>(words[0]);
  if (kind < static_cast<std::uint32_t>(record_kind::iteration) ||
      kind > static_cast<std::uint32_t>(record_kind::digest)) {
    return std::nullopt;
  }
  return std::bit_cast<progress_record>(words);
}

}  // namespace

const char* to_string(train_phase phase) {
  static constexpr std::array names{"starting", "parked",   "joining",  "compute",    "all_reduce",
                                    "decision", "applying", "snapshot", "evaluating", "finished"};
  const auto index = static_cast<std::size_t>(phase);
  return index < names.size() ? names[index] : "unknown";
}

// The halves of a digest stand in two whole numbers that its record has no other use for.
progress_record digest_record(generation_id generation, iteration_id iteration,
                              const digest128& digest, std::int64_t took_ns) {
  progress_record record;
  record.kind = record_kind::digest;
  record.generation = generation.value();
  record.iteration = iteration.value();
  record.optimizer_step = digest.high;
  record.samples = digest.low;
  record.step_ns = took_ns;
  return record;
}

digest128 digest_in(const progress_record& record) {
  return {record.optimizer_step, record.samples};
}

void set_reduced_bytes(progress_record& record, std::uint64_t bytes) {
  record.accuracy = std::bit_cast<double>(bytes);
}

std::uint64_t reduced_bytes_in(const progress_record& record) {
  const bool has_it = record.kind == record_kind::iteration;
  return has_it ? std::bit_cast<std::uint64_t>(record.accuracy) : 0;
}

std::size_t progress_memory_bytes() {
  return (page_words + progress_ring_records * slot_words) * sizeof(std::uint64_t);
}

progress_writer::progress_writer(const shared_memory& memory) : base_(memory.data()) {
  FTRT_ASSERT(memory.size() >= progress_memory_bytes());
  for (std::size_t index = 0; index < page_words; ++index) store(base_, index, 0);
  store(base_, word_thread, static_cast<std::uint64_t>(::gettid()));
  touch(base_);
}

void progress_writer::set_phase(train_phase phase) {
  store(base_, word_phase, static_cast<std::uint64_t>(phase));
  touch(base_);
}

void progress_writer::set_generation(generation_id generation) {
  // Collectives are counted anew in each.
  store(base_, word_collective_begun, 0);
  store(base_, word_collective_bytes, 0);
  store(base_, word_collective_sequence, 0);
  store(base_, word_generation, generation.value());
  touch(base_);
}

void progress_writer::begin_iteration(iteration_id iteration) {
  store(base_, word_micro_batch, 0);
  store(base_, word_iteration, iteration.value());
  touch(base_);
}

void progress_writer::set_micro_batch(std::uint64_t micro_batch) {
  store(base_, word_micro_batch, micro_batch);
  touch(base_);
}

void progress_writer::set_collective_sequence(std::uint64_t sequence) {
  store(base_, word_collective_sequence, sequence);
  touch(base_);
}

void progress_writer::begin_collective(std::uint64_t number, std::uint64_t bytes) {
  store(base_, word_collective_bytes, bytes);
  store(base_, word_collective_begun, number);
  touch(base_);
}

void progress_writer::wait_on() {
  store(base_, word_waiting_ns, monotonic_ns());
}

void progress_writer::begin_apply() {
  store(base_, word_applying, 1);
  touch(base_);
}

void progress_writer::commit(iteration_id iteration) {
  store(base_, word_committed, iteration.value());
  store(base_, word_applying, 0);
  touch(base_);
}

void progress_writer::reset_committed(iteration_id iteration) {
  commit(iteration);
}

void progress_writer::append(const progress_record& record) {
  const auto number = load(base_, word_appended);
  write_slot(base_, number, std::bit_cast<payload>(record));
  store(base_, word_appended, number + 1);
}

void progress_writer::note_injury(std::uint64_t number) {
  const auto before = load(base_, word_injured);
  store(base_, word_injured + 1 + before % injuries_kept, number);
  store(base_, word_injured, before + 1);
}

progress_reader::progress_reader(const shared_memory& memory) : base_(memory.data()) {
  FTRT_ASSERT(memory.size() >= progress_memory_bytes());
}

progress_view progress_reader::view() const {
  progress_view view;
  // `applying` is read before and after `committed`: a commit in between must not show the new
  // number with a torn state, nor the old one with a whole state that is already being changed.
  const bool before = load(base_, word_applying) != 0;
  view.committed = iteration_id{load(base_, word_committed)};
  view.applying = before || load(base_, word_applying) != 0;
  view.iteration = iteration_id{load(base_, word_iteration)};
  view.generation = generation_id{load(base_, word_generation)};
  view.micro_batch = load(base_, word_micro_batch);
  view.collective_sequence = load(base_, word_collective_sequence);
  view.collective_begun = load(base_, word_collective_begun);
  view.collective_bytes = load(base_, word_collective_bytes);
  view.progress_ns = static_cast<std::int64_t>(load(base_, word_progress_ns));
  view.waiting_ns = static_cast<std::int64_t>(load(base_, word_waiting_ns));
  view.thread = load(base_, word_thread);
  const auto phase = load(base_, word_phase);
  if (phase <= static_cast<std::uint64_t>(train_phase::finished)) {
    view.phase = static_cast<train_phase>(phase);
  }
  return view;
}

std::vector<std::uint64_t> progress_reader::injuries() const {
  const auto count = std::min<std::uint64_t>(load(base_, word_injured), injuries_kept);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < count; ++i) numbers.push_back(load(base_, word_injured + 1 + i));
  return numbers;
}

std::optional<progress_record> progress_reader::next() {
  const auto appended = load(base_, word_appended);
  if (appended <= position_) return std::nullopt;
  if (appended - position_ > progress_ring_records) {
    missed_ += appended - position_ - progress_ring_records;
    position_ = appended - progress_ring_records;
  }
  // At most one ring's worth of slots, whatever the writer does meanwhile.
  while (position_ < appended) {
    auto record = read_slot(base_, position_++);
    if (record) return record;
    ++missed_;
  }
  return std::nullopt;
}

void progress_reader::seek_newest(std::uint64_t count) {
  const auto appended = load(base_, word_appended);
  position_ = appended - std::min({appended, count, std::uint64_t{progress_ring_records}});
}

}  // namespace ftrt::storage
