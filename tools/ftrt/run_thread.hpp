#pragma once

#include <atomic>
#include <filesystem>
#include <ftrt/run.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tools/ftrt/mailbox.hpp"

namespace ftrt::cli {

// ftrt::run::start() or resume() with everything bound but the options; a test has its own.
using starter = std::function<tl::expected<std::unique_ptr<run>, start_error>(const run_options&)>;

// How a run ended, or why it never began.
struct outcome {
  bool started = false;
  start_error not_started;
  run_summary summary;
  std::filesystem::path directory;
};

// Starts a run and waits for its end on a thread of its own, so that the main thread stays free for
// signals and the screen, during the start too. Reports into the mailbox and wakes it at the end.
//
// Owned by the main thread, which alone calls its methods. The destructor stops the run at once.
class run_thread {
 public:
  run_thread(starter start, mailbox& news);
  ~run_thread();
  run_thread(const run_thread&) = delete;
  run_thread& operator=(const run_thread&) = delete;

  // Both return at once, and hold for a run that has not started yet as well.
  void request_stop(const std::string& reason);
  void stop_now();

  [[nodiscard]] bool finished() const { return finished_; }
  // A run that has not come up yet cannot be stopped at once; the caller may have to leave.
  [[nodiscard]] bool starting() const { return starting_; }
  // Blocks until finished().
  [[nodiscard]] outcome take();

 private:
  void work(const starter& start);
  void begin(const starter& start);
  run_options callbacks();

  mailbox& news_;
  std::mutex mutex_;
  std::unique_ptr<run> run_;   // guarded by mutex_; set once, cleared when it has ended
  std::string stop_reason_;    // guarded by mutex_
  bool stop_at_once_ = false;  // guarded by mutex_
  std::atomic<bool> starting_{true};
  std::atomic<bool> finished_{false};
  outcome outcome_;  // the thread's until finished_
  std::thread thread_;
};

}  // namespace ftrt::cli
