#include <actors/host/job_thread.hpp>
#include <actors/host/log.hpp>
#include <exception>
#include <utility>

namespace ftrt::host {

job_thread::~job_thread() {
  drop_queue();
  thread_.join();
}

void job_thread::post(std::string name, std::function<void()> job) {
  {
    const std::lock_guard lock{mutex_};
    if (finishing_) return;
    jobs_.push_back({std::move(name), std::move(job)});
  }
  wake_.notify_one();
}

// Outside the lock: what a job holds may be large.
void job_thread::drop_queue() {
  std::deque<named_job> dropped;
  {
    const std::lock_guard lock{mutex_};
    finishing_ = true;
    dropped.swap(jobs_);
  }
  wake_.notify_one();
}

std::optional<std::string> job_thread::finish(std::chrono::milliseconds deadline) {
  drop_queue();
  std::unique_lock lock{mutex_};
  idle_.wait_for(lock, deadline, [this] { return !at_work_; });
  return at_work_;
}

void job_thread::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [this] { return finishing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    {
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      at_work_ = job.name;
      lock.unlock();
      run(job);
    }
    lock.lock();
    at_work_.reset();
    idle_.notify_all();
  }
}

void job_thread::run(const named_job& job) const {
  try {
    job.work();
  } catch (const std::exception& e) {  // out of memory, say: whoever waits for it has a deadline
    log().error("{} failed: {}", job.name, e.what());
  }
}

}  // namespace ftrt::host
