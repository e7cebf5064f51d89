#pragma once

#include <cstdint>
#include <ftrt/types.hpp>
#include <mutex>
#include <schemas/protocol/messages.hpp>
#include <span>
#include <vector>

namespace ftrt::actors {

// Orders to workers to do something to themselves that none has obeyed yet. They are of a rank, not
// of a process: who replaces a worker that died before it came to it is given them too. A worker
// says on its progress page which ones it obeys, before it does. Any thread; outlives all actors.
class standing_orders {
 public:
  struct order {
    std::size_t entry = 0;  // of the scenario's [[chaos]]
    rank_id rank;
    protocol::injure what;
  };

  // Gives the order its number.
  protocol::injure add(std::size_t entry, rank_id rank, protocol::injure what);
  [[nodiscard]] std::vector<protocol::injure> of(rank_id rank) const;
  // Takes out and returns those of `numbers` that stood for this rank.
  [[nodiscard]] std::vector<order> settle(rank_id rank, std::span<const std::uint64_t> numbers);
  [[nodiscard]] std::vector<order> all() const;
  [[nodiscard]] bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::vector<order> orders_;  // in the order of their numbers
};

}  // namespace ftrt::actors
