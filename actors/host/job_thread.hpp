#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ftrt::host {

// Where actors put what may take its time: the job thread, or in their tests whoever is to do it.
class job_queue {
 public:
  virtual ~job_queue() = default;
  // `name` is for people.
  virtual void post(std::string name, std::function<void()> job) = 0;
  // Nobody waits any more for what a job may come to.
  [[nodiscard]] virtual bool is_finishing() const = 0;
};

// One thread that does what may take its time but must not wait for a disk, in order. Jobs are few
// (their number is bounded by their senders) and answer by whatever they send. One that may take
// long looks now and then whether is_finishing(), and gives up then. Any thread may post.
class job_thread final : public job_queue {
 public:
  job_thread() : thread_([this] { work(); }) {}
  // Waits for the job at work.
  ~job_thread() override;
  job_thread(const job_thread&) = delete;
  job_thread& operator=(const job_thread&) = delete;

  void post(std::string name, std::function<void()> job) override;
  // Nobody waits any more for what jobs may still come to: those that were not begun are dropped,
  // as is what is posted later, and the one at work may take until the deadline. Its name, where it
  // did not end; then it is still at work. Idempotent.
  [[nodiscard]] std::optional<std::string> finish(std::chrono::milliseconds deadline);
  [[nodiscard]] bool is_finishing() const override { return finishing_; }

 private:
  struct named_job {
    std::string name;
    std::function<void()> work;
  };
  void work();
  void drop_queue();
  void run(const named_job& job) const;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<named_job> jobs_;
  std::optional<std::string> at_work_;
  std::atomic<bool> finishing_{false};
  std::thread thread_;
};

}  // namespace ftrt::host
