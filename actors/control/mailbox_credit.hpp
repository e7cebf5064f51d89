#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace ftrt::actors {

// How many of a sender's messages nobody has dealt with yet. Mailboxes have no bound of their own:
// who reads from outside stops reading at a bound of its own, and so whoever writes there has to
// wait. Each message carries a ticket, which counts until the last copy of the message is gone,
// handled or dropped with a mailbox.
//
//   said.ticket = credit.take();
//   send(said);
//   if (credit.outstanding() > most) stop_reading();
//
// take() by the sender's thread; tickets may end on any, also after the credit. (What else is to be
// counted for as long as it lasts can be counted so, too.)
class mailbox_credit {
 public:
  using ticket = std::shared_ptr<const void>;

  [[nodiscard]] ticket take() {
    count_->fetch_add(1, std::memory_order_relaxed);
    return {nullptr, [count = count_](const void*) { count->fetch_sub(1); }};
  }
  [[nodiscard]] std::size_t outstanding() const { return count_->load(); }

 private:
  std::shared_ptr<std::atomic<std::size_t>> count_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace ftrt::actors
