#pragma once

#include <string_view>

namespace ftrt::cli {

// Text to a file descriptor, unbuffered and without exceptions. A reader that went away (`ftrt
// events | head`) makes every later write a no-op: a run must not end because nobody listens.
//
// Does not own the descriptor. One thread at a time. Wants SIGPIPE ignored.
class output {
 public:
  explicit output(int fd) : fd_(fd) {}

  void write(std::string_view text);

  // Whether a person looks at it through something that understands control sequences.
  [[nodiscard]] bool is_terminal() const;
  // Columns of the terminal; 80 where it does not say.
  [[nodiscard]] int columns() const;
  // The first errno that was not a vanished reader; 0: none.
  [[nodiscard]] int failure() const { return failure_; }

 private:
  int fd_;
  bool closed_ = false;
  int failure_ = 0;
};

}  // namespace ftrt::cli
