#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ftrt::host {

// One thread that does what may take its time but must not wait for a disk, in order. Jobs are few
// (their number is bounded by their senders) and answer by whatever they send. Any thread may post.
class job_thread {
 public:
  job_thread() : thread_([this] { work(); }) {}
  ~job_thread() { finish(); }
  job_thread(const job_thread&) = delete;
  job_thread& operator=(const job_thread&) = delete;

  void post(std::function<void()> job);
  // Returns once all queued work is done; what is posted later is dropped. Idempotent; the owner's
  // thread.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace ftrt::host
