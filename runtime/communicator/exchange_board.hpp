#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <runtime/communicator/peers.hpp>
#include <span>

namespace ftrt::shm {

// The words of communicator::exchange(), kept so that exchanged() can still read them when the
// generation has ended.
//
// The nth exchange uses slot n mod 4 of each rank. Nobody begins exchange n + 2 before all ranks
// have contributed to n + 1, hence left n: while a rank may still ask for its last exchange, its
// peers are at most one slot further, and the words stand.
//
// Owned by the communicator, on its thread.
class exchange_board {
 public:
  explicit exchange_board(peers& all) : peers_(all) {}

  [[nodiscard]] result<void> exchange(std::uint64_t key, std::span<const std::byte> mine,
                                      std::span<std::byte> all);
  [[nodiscard]] bool exchanged(std::uint64_t key, std::span<std::byte> all) const;

 private:
  void contribute(std::uint64_t key, std::span<const std::byte> mine);

  peers& peers_;
  std::uint64_t contributed_ = 0;
  std::uint64_t last_stamp_ = 0;
};

}  // namespace ftrt::shm
