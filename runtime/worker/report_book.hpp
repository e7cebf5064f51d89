#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <schemas/protocol/messages.hpp>
#include <vector>

namespace ftrt::worker {

// What must be said after each hello, be it to a new control socket or to a query. A trainer, or the
// supervisor behind it, may die with our last message unread, so the latest word on where this rank
// stands is said again to the successor until a command makes it old news, and so is the final
// snapshot, which the end of the run waits for; announcements of other snapshots that nobody was
// there for are kept, the newest few. Pure; control thread.
class report_book {
 public:
  static constexpr std::size_t max_snapshots = 8;

  // `m` is about to be sent, or would be if a link were up. A snapshot counts as told then.
  void note(const protocol::message& m, bool link_is_up);
  // A command was accepted: what was reported before it is no longer current.
  void forget_reports();

  // In the order to send them. Snapshots are handed over, reports and the final snapshot stay.
  [[nodiscard]] std::vector<protocol::message> after_hello();
  // joined, join_failed, parked, finished or program_failed.
  [[nodiscard]] const std::optional<protocol::message>& latest() const { return latest_; }

 private:
  std::optional<protocol::message> latest_;
  std::optional<protocol::message> lost_;  // peer_lost
  std::optional<protocol::message> final_snapshot_;
  std::deque<protocol::message> snapshots_;
};

}  // namespace ftrt::worker
