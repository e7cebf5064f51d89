#pragma once

#include <cstddef>
#include <deque>
#include <ftrt/error.hpp>
#include <functional>
#include <storage/catalog.hpp>

namespace ftrt::actors {

// The rows that say how a run's history goes on: branches, generations, ledger. Checkpoints refer
// to them, so that one which a full or busy disk would not take is owed, with all that follow it,
// and written before the next row or checkpoint.
//
// Owned by the run, since actors come and go. Storage thread only.
class history_rows {
 public:
  // Tried again after a failure, so that what it has done of itself it must not do twice.
  using row = std::function<result<void>(storage::catalog&)>;

  // Writes what is owed and then `next`. An error is that of the first one which could not be
  // written; what may yet succeed is owed from then on.
  result<void> write(storage::catalog& catalog, row next);
  // Writes what is owed. Before anything that refers to it.
  result<void> settle(storage::catalog& catalog);

  [[nodiscard]] std::size_t owed() const { return owed_.size(); }

 private:
  std::deque<row> owed_;
};

}  // namespace ftrt::actors
