#include <iterator>
#include <runtime/worker/report_book.hpp>
#include <variant>

namespace ftrt::worker {

void report_book::note(const protocol::message& m, bool link_is_up) {
  if (const auto* snapshot = std::get_if<protocol::snapshot_ready>(&m)) {
    if (snapshot->final) final_snapshot_ = m;
    if (link_is_up || snapshot->final) return;
    snapshots_.push_back(m);
    if (snapshots_.size() > max_snapshots) snapshots_.pop_front();
  } else if (std::holds_alternative<protocol::peer_lost>(m)) {
    lost_ = m;
  } else {
    latest_ = m;
  }
}

void report_book::forget_reports() {
  latest_.reset();
  lost_.reset();
  final_snapshot_.reset();
}

std::vector<protocol::message> report_book::after_hello() {
  std::vector<protocol::message> messages(std::make_move_iterator(snapshots_.begin()),
                                          std::make_move_iterator(snapshots_.end()));
  snapshots_.clear();
  if (final_snapshot_) messages.push_back(*final_snapshot_);
  if (lost_) messages.push_back(*lost_);
  if (latest_) messages.push_back(*latest_);
  return messages;
}

}  // namespace ftrt::worker
