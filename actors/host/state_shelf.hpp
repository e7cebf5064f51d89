#pragma once

#include <ftrt/types.hpp>
#include <memory>
#include <mutex>
#include <storage/shared_memory.hpp>
#include <string>
#include <vector>

namespace ftrt::host {

// A whole state that control put together from snapshots, for new workers to copy from.
struct shelved_state {
  iteration_id iteration;
  storage::shared_memory memory;
  std::string digest;  // xxh3-128 of all of it
};

// Where restored states lie: what the newest search found, until all ranks have loaded it, and what
// they had loaded before. The latter stays while its generation trains: the branch of history began
// from it, so that until the next snapshot nothing else in memory can bring the ranks back; and
// what is found later may not load. Costs one state's memory from the first such recovery on, and
// one or two more while one is under way.
//
// Searches may be late: each says for which generation it was asked (find_source), and one that
// was asked before the newest generation was made changes nothing here.
//
//   shelf.offer(asked, state);            // the search
//   shelf.begin_generation(generation);   // its answer was taken, or something else happened
//   shelf.of(iteration);                  // for the joins
//   shelf.loaded(iteration);              // it trains
//
// Any thread.
class state_shelf {
 public:
  using state_ptr = std::shared_ptr<const shelved_state>;

  // Answers to what was asked before are of no use any more.
  void begin_generation(generation_id generation);
  [[nodiscard]] bool is_stale(generation_id asked) const;

  // A search found this one. False: it is stale, and nothing was done.
  bool offer(generation_id asked, state_ptr state);
  // A search found that this one is damaged or not to be gone back to. Stale: nothing is done.
  void discard(generation_id asked, const state_ptr& state);

  // Whatever lies there, newest iteration first, what was offered last before what was loaded.
  [[nodiscard]] std::vector<state_ptr> all() const;
  // The one of this iteration; nullptr: none lies there.
  [[nodiscard]] state_ptr of(iteration_id iteration) const;

  // The ranks train, and have loaded the state of this iteration: what was kept in case it did not
  // load goes.
  void loaded(iteration_id iteration);
  // The ranks train, and have loaded nothing from here: what was offered goes.
  void forget_offers();
  // History past `iteration` is void.
  void roll_back_to(iteration_id iteration);

 private:
  struct offered {
    generation_id asked;
    state_ptr state;
  };
  // More answers to one question than any search gives.
  static constexpr std::size_t most_offers = 2;

  [[nodiscard]] state_ptr find(iteration_id iteration) const;  // under the lock

  mutable std::mutex mutex_;
  generation_id newest_;
  state_ptr loaded_;
  std::vector<offered> offers_;  // the newest last
};

}  // namespace ftrt::host
