#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <storage/digest.hpp>
#include <storage/shared_words.hpp>
#include <storage/snapshot.hpp>

namespace ftrt::storage {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t digest_hex = 32;
// What is digested and copied at a time: fits the nearest cache but one, with room to spare.
constexpr std::size_t piece_bytes = 64u << 10;
constexpr std::size_t header_words = 16;  // of one slot; all three fit the first page
constexpr std::size_t first_digest_word = 8;
constexpr std::size_t digest_words = digest_hex / sizeof(std::uint64_t);
static_assert(first_digest_word + digest_words <= header_words);
// Each further look means that control took or released a slot meanwhile, of which it has few.
constexpr int max_looks = 100;
// Beyond this an arena is not a state but a wrong number.
constexpr std::uint64_t max_arena_bytes = std::uint64_t{1} << 46;

// The first word of a slot's header: (number of the write << 3) | state. It is odd only while the
// slot is written, and numbers grow over all slots, so they tell which snapshot is older.
enum slot_state : std::uint64_t { free_slot = 0, writing = 1, ready = 2, held = 4 };
constexpr std::uint64_t state_of(std::uint64_t word) {
  return word & 7;
}
constexpr std::uint64_t number_of(std::uint64_t word) {
  return word >> 3;
}
constexpr std::uint64_t make_word(std::uint64_t number, slot_state state) {
  return (number << 3) | state;
}

std::byte* header_of(std::byte* base, std::uint32_t slot) {
  return base + slot * header_words * sizeof(std::uint64_t);
}

std::byte* content_of(std::byte* base, std::uint64_t arena_bytes, std::uint32_t slot) {
  return base + page_bytes + slot * align_up(arena_bytes, page_bytes);
}

void store_header(std::byte* at, const snapshot_header& header) {
  const std::array<std::uint64_t, 7> words{header.generation.value(),
                                           header.branch.value(),
                                           header.iteration.value(),
                                           header.part,
                                           header.parts,
                                           header.begin_bytes,
                                           header.length_bytes};
  for (std::size_t i = 0; i < words.size(); ++i) {
    word_at(at, 1 + i).store(words[i], std::memory_order_release);
  }
}

void store_digest(std::byte* at, const std::string& hex) {
  FTRT_ASSERT(hex.size() == digest_hex);
  for (std::size_t i = 0; i < digest_words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, hex.data() + i * sizeof word, sizeof word);
    word_at(at, first_digest_word + i).store(word, std::memory_order_release);
  }
}

std::string load_digest(const std::byte* at) {
  std::string hex(digest_hex, '\0');
  for (std::size_t i = 0; i < digest_words; ++i) {
    const auto word = word_at(at, first_digest_word + i).load(std::memory_order_acquire);
    std::memcpy(hex.data() + i * sizeof word, &word, sizeof word);
  }
  return hex;
}

std::string copy_and_digest(std::byte* to, std::span<const std::byte> from) {
  digest_stream digest;
  for (std::size_t at = 0; at < from.size(); at += piece_bytes) {
    const auto piece = from.subspan(at, std::min(piece_bytes, from.size() - at));
    digest.update(piece);
    std::memcpy(to + at, piece.data(), piece.size());
  }
  return digest.hex();
}

// Nothing in it may be believed: a number that does not fit its field makes the header invalid.
std::optional<snapshot_header> load_header(const std::byte* at, std::uint64_t arena_bytes) {
  std::array<std::uint64_t, 7> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = word_at(at, 1 + i).load(std::memory_order_acquire);
  }
  const auto [generation, branch, iteration, part, parts, begin, length] = words;
  constexpr auto largest = std::numeric_limits<std::uint32_t>::max();
  if (branch > largest || parts == 0 || parts > largest || part >= parts) return std::nullopt;
  if (length > arena_bytes || begin > arena_bytes - length) return std::nullopt;
  snapshot_header header;
  header.generation = generation_id{generation};
  header.branch = branch_id{static_cast<std::uint32_t>(branch)};
  header.iteration = iteration_id{iteration};
  header.part = static_cast<std::uint32_t>(part);
  header.parts = static_cast<std::uint32_t>(parts);
  header.begin_bytes = begin;
  header.length_bytes = length;
  header.digest = load_digest(at);
  return header;
}

struct candidate {
  std::uint32_t slot = 0;
  std::uint64_t word = 0;
};

// Slots in the order in which a writer should take them: free ones, then ready ones by age. A slot
// found in `writing` is its own, left behind by a write that threw: as good as free.
std::vector<candidate> candidates(std::byte* base, std::uint64_t& newest) {
  std::vector<candidate> found;
  newest = 0;
  for (std::uint32_t slot = 0; slot < snapshot_slots; ++slot) {
    const auto word = word_at(header_of(base, slot), 0).load(std::memory_order_acquire);
    newest = std::max(newest, number_of(word));
    if (state_of(word) != held) found.push_back({slot, word});
  }
  std::ranges::sort(found, {}, [](const candidate& c) {
    return std::pair{state_of(c.word) == ready, number_of(c.word)};
  });
  return found;
}

std::uint32_t held_slots(std::byte* base) {
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < snapshot_slots; ++slot) {
    const auto word = word_at(header_of(base, slot), 0).load(std::memory_order_acquire);
    count += state_of(word) == held ? 1 : 0;
  }
  return count;
}

bool change(std::byte* header, std::uint64_t from, std::uint64_t to) {
  return word_at(header, 0).compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

result<void> check_memory(const shared_memory& memory, std::uint64_t arena_bytes) {
  const auto needed = snapshot_memory_bytes(arena_bytes);
  if (memory.size() >= needed) return {};
  return fail(error_code::corrupt, "snapshot memory has " + std::to_string(memory.size()) +
                                       " bytes, an arena of " + std::to_string(arena_bytes) +
                                       " needs " + std::to_string(needed));
}

}  // namespace

std::size_t snapshot_memory_bytes(std::uint64_t arena_bytes) {
  if (arena_bytes > max_arena_bytes) return std::numeric_limits<std::size_t>::max();
  return page_bytes + snapshot_slots * align_up(arena_bytes, page_bytes);
}

snapshot_writer::snapshot_writer(const shared_memory& memory, std::uint64_t arena_bytes)
    : base_(memory.data()), arena_bytes_(arena_bytes) {
  FTRT_ASSERT(memory.size() >= snapshot_memory_bytes(arena_bytes));
  for (std::uint32_t slot = 0; slot < snapshot_slots; ++slot) {
    word_at(header_of(base_, slot), 0).store(make_word(0, free_slot), std::memory_order_release);
  }
}

result<std::uint32_t> snapshot_writer::write(const snapshot_header& header,
                                             std::span<const std::byte> content) {
  if (content.size() > arena_bytes_ || header.begin_bytes > arena_bytes_ - content.size() ||
      header.part >= header.parts) {
    return fail(error_code::invalid_argument,
                "snapshot of " + std::to_string(content.size()) + " bytes at " +
                    std::to_string(header.begin_bytes) + ", part " + std::to_string(header.part) +
                    " of " + std::to_string(header.parts) + ", does not fit an arena of " +
                    std::to_string(arena_bytes_) + " bytes");
  }
  const auto taken = take();
  if (!taken) return fail(error_code::busy, "every snapshot slot is held by a reader");
  const auto [slot, number] = *taken;
  auto* at = header_of(base_, slot);
  auto whole = header;
  whole.length_bytes = content.size();
  store_header(at, whole);
  store_digest(at, copy_and_digest(content_of(base_, arena_bytes_, slot), content));
  word_at(at, 0).store(make_word(number, ready), std::memory_order_release);
  return slot;
}

// A reader may have taken what we found free, and released what was held: look again. That holds
// for four slots that seem to be held, too: they were looked at one after the other.
std::optional<snapshot_writer::taken_slot> snapshot_writer::take() {
  for (int looks = 0; looks < max_looks; ++looks) {
    std::uint64_t newest = 0;
    const auto found = candidates(base_, newest);
    for (const auto& [slot, word] : found) {
      const auto number = newest + 1;
      if (change(header_of(base_, slot), word, make_word(number, writing))) {
        return taken_slot{slot, number};
      }
    }
  }
  return std::nullopt;
}

result<held_snapshot> held_snapshot::hold(const shared_memory& memory, std::uint64_t arena_bytes,
                                          std::uint32_t slot) {
  const auto name = "snapshot slot " + std::to_string(slot);
  if (auto ok = check_memory(memory, arena_bytes); !ok) return tl::unexpected(ok.error());
  if (slot >= snapshot_slots) return fail(error_code::not_found, name + " does not exist");
  auto* at = header_of(memory.data(), slot);
  const auto word = word_at(at, 0).load(std::memory_order_acquire);
  if (state_of(word) == held) return fail(error_code::busy, name + " is held by another reader");
  if (held_slots(memory.data()) >= max_held_slots) {
    return fail(error_code::busy,
                name + " is one of those left to the writer: the others are held");
  }
  if (state_of(word) != ready || !change(at, word, make_word(number_of(word), held))) {
    return fail(error_code::not_found, name + " holds no whole snapshot");
  }
  held_snapshot snapshot;
  snapshot.slot_ = at;
  const auto header = load_header(at, arena_bytes);
  if (!header) {
    return fail(error_code::corrupt, name + " has a header beyond the bounds of its arena");
  }
  snapshot.header_ = *header;
  snapshot.content_ = {content_of(memory.data(), arena_bytes, slot), header->length_bytes};
  return snapshot;
}

held_snapshot::held_snapshot(held_snapshot&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)),
      header_(other.header_),
      content_(std::exchange(other.content_, {})) {}

held_snapshot& held_snapshot::operator=(held_snapshot&& other) noexcept {
  if (this == &other) return *this;
  release();
  slot_ = std::exchange(other.slot_, nullptr);
  header_ = other.header_;
  content_ = std::exchange(other.content_, {});
  return *this;
}

held_snapshot::~held_snapshot() {
  release();
}

bool held_snapshot::verify() const {
  return digest_of(content_) == header_.digest;
}

void held_snapshot::release() {
  if (slot_ == nullptr) return;
  const auto word = word_at(slot_, 0).load(std::memory_order_relaxed);
  // Fails only where the worker scribbled over the state; then the slot is its own affair.
  if (state_of(word) == held)
    static_cast<void>(change(slot_, word, (word & ~std::uint64_t{7}) | ready));
  slot_ = nullptr;
}

result<snapshot_view> snapshot_view::look(const shared_memory& memory, std::uint64_t arena_bytes,
                                          std::uint32_t slot) {
  const auto name = "snapshot slot " + std::to_string(slot);
  if (auto ok = check_memory(memory, arena_bytes); !ok) return tl::unexpected(ok.error());
  if (slot >= snapshot_slots) return fail(error_code::not_found, name + " does not exist");
  snapshot_view view;
  view.index_ = slot;
  view.slot_ = header_of(memory.data(), slot);
  const auto word = word_at(view.slot_, 0).load(std::memory_order_acquire);
  view.number_ = number_of(word);
  view.held_ = state_of(word) == held;
  const bool whole = view.held_ || state_of(word) == ready;
  const auto header = load_header(view.slot_, arena_bytes);
  // Still the same, so the header belongs to this very snapshot.
  if (!whole || !view.is_current()) {
    return fail(error_code::not_found, name + " holds no whole snapshot");
  }
  if (!header) {
    return fail(error_code::corrupt, name + " has a header beyond the bounds of its arena");
  }
  view.header_ = *header;
  view.content_ = {content_of(memory.data(), arena_bytes, slot), header->length_bytes};
  return view;
}

// What was read before stays before. The thread sanitizer knows no fence between threads; on the
// machines that it runs on, the compiler is all that could move a read.
static void keep_reads_before() {
#ifdef __SANITIZE_THREAD__
  std::atomic_signal_fence(std::memory_order_acquire);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

bool snapshot_view::is_current() const {
  keep_reads_before();
  const auto word = word_at(slot_, 0).load(std::memory_order_acquire);
  return number_of(word) == number_ && state_of(word) != writing;
}

std::vector<listed_snapshot> list_whole(const shared_memory& memory, std::uint64_t arena_bytes) {
  std::vector<snapshot_view> found;
  for (std::uint32_t slot = 0; slot < snapshot_slots; ++slot) {
    if (auto view = snapshot_view::look(memory, arena_bytes, slot)) {
      found.push_back(std::move(*view));
    }
  }
  std::ranges::sort(found, std::ranges::greater{}, [](const snapshot_view& view) {
    return std::pair{view.header().iteration, view.number()};
  });
  std::vector<listed_snapshot> listed;
  for (const auto& view : found) listed.push_back({view.slot(), view.header(), view.is_held()});
  return listed;
}

std::vector<listed_snapshot> list_ready(const shared_memory& memory, std::uint64_t arena_bytes) {
  auto listed = list_whole(memory, arena_bytes);
  std::erase_if(listed, [](const listed_snapshot& each) { return each.held; });
  return listed;
}

}  // namespace ftrt::storage
