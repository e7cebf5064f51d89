#pragma once

#include <cstddef>
#include <ftrt/event.hpp>
#include <ftrt/run.hpp>
#include <mutex>
#include <optional>
#include <vector>

namespace ftrt::cli {

// What the runtime's thread tells the main thread, which alone draws: a terminal that does not take
// its text (Ctrl-S) then holds up nobody but the reader of that terminal.
//
// Bounded: past `capacity` waiting events, newer ones are counted and dropped (events.jsonl has
// them all). Of progress only the newest counts. Any thread.
class mailbox {
 public:
  static constexpr std::size_t capacity = 4096;

  mailbox();
  ~mailbox();
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;

  void push(const event& happened);
  void push(const progress& moment);
  // Wakes the reader with nothing to say: the run has ended.
  void wake();

  struct contents {
    std::vector<event> events;
    std::optional<progress> moment;
    std::size_t dropped = 0;
  };
  // Readable when there is something to take.
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] contents take();

 private:
  int fd_;
  std::mutex mutex_;
  contents waiting_;
};

}  // namespace ftrt::cli
