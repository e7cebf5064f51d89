#include <runtime/communicator/exchange_board.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace ftrt::shm {
namespace {

// Release and acquire on each word: who reads a word of a later exchange also sees that the stamp
// has gone.
using word_buffer = std::array<std::uint64_t, communicator::max_word_bytes / 8>;

void write_words(exchange_slot& slot, std::span<const std::byte> bytes) {
  word_buffer buffer{};
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    slot.words[i].store(buffer[i], std::memory_order_release);
  }
}

void read_words(const exchange_slot& slot, std::span<std::byte> bytes) {
  word_buffer buffer{};
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = slot.words[i].load(std::memory_order_acquire);
  }
  std::memcpy(bytes.data(), buffer.data(), bytes.size());
}

const exchange_slot* find(const rank_area& area, std::uint64_t stamp) {
  const auto found =
      std::find_if(area.exchanged.begin(), area.exchanged.end(),
                   [stamp](const exchange_slot& slot) { return slot.stamp.load() == stamp; });
  return found == area.exchanged.end() ? nullptr : &*found;
}

}  // namespace

result<void> exchange_board::exchange(std::uint64_t key, std::span<const std::byte> mine,
                                      std::span<std::byte> all) {
  if (mine.size() > communicator::max_word_bytes ||
      all.size() != mine.size() * peers_.world_size()) {
    return fail(error_code::invalid_argument,
                "exchange of " + std::to_string(mine.size()) + " bytes into " +
                    std::to_string(all.size()) + ": expected at most " +
                    std::to_string(communicator::max_word_bytes) + ", and room for each rank's");
  }
  if (key + 1 <= last_stamp_) {
    return fail(error_code::invalid_argument, "exchange key " + std::to_string(key) +
                                                  " is not greater than the last one, " +
                                                  std::to_string(last_stamp_ - 1));
  }
  if (auto alive = peers_.check(); !alive) return alive;
  contribute(key, mine);
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (rank == peers_.rank()) continue;
    auto there = peers_.await(rank, peers_.area(rank).exchanges, contributed_);
    if (!there) return there;
  }
  if (exchanged(key, all)) return {};
  return peers_.end_with({error_code::invalid_argument,
                          "the ranks called exchange with different keys or sizes; this one with " +
                              std::to_string(key) + ", " + std::to_string(mine.size()) + " bytes",
                          {}});
}

void exchange_board::contribute(std::uint64_t key, std::span<const std::byte> mine) {
  exchange_slot& slot = peers_.mine().exchanged[contributed_ % exchange_slots];
  slot.stamp.store(0);
  write_words(slot, mine);
  slot.size_bytes.store(mine.size(), std::memory_order_relaxed);
  slot.stamp.store(key + 1, std::memory_order_release);
  last_stamp_ = key + 1;
  peers_.publish(peers_.mine().exchanges, ++contributed_);
}

bool exchange_board::exchanged(std::uint64_t key, std::span<std::byte> all) const {
  const std::size_t size = all.size() / peers_.world_size();
  if (size > communicator::max_word_bytes || size * peers_.world_size() != all.size()) return false;
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    const exchange_slot* slot = find(peers_.area(rank), key + 1);
    if (slot == nullptr || slot->size_bytes.load(std::memory_order_relaxed) != size) return false;
    read_words(*slot, all.subspan(rank * size, size));
    // Reused meanwhile: the key was older than the board remembers.
    if (slot->stamp.load(std::memory_order_relaxed) != key + 1) return false;
  }
  return true;
}

}  // namespace ftrt::shm
