#pragma once

#include <optional>

namespace ftrt::cli {

// SIGINT, SIGTERM and SIGHUP as something to read instead of something that interrupts. The
// command's own business: the library under it touches no signal.
//
// Construct it on the main thread before any other thread exists, so that they all inherit the
// mask. The destructor gives the mask back.
class signals {
 public:
  signals();
  ~signals();
  signals(const signals&) = delete;
  signals& operator=(const signals&) = delete;

  // Readable when a signal waits.
  [[nodiscard]] int fd() const { return fd_; }
  // The next waiting signal's number; does not block.
  [[nodiscard]] std::optional<int> take();

 private:
  int fd_ = -1;
};

// "SIGINT"
[[nodiscard]] const char* signal_name(int number);

}  // namespace ftrt::cli
