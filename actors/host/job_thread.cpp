#include <actors/host/job_thread.hpp>
#include <actors/host/log.hpp>
#include <exception>
#include <utility>

namespace ftrt::host {

void job_thread::post(std::function<void()> job) {
  {
    const std::lock_guard lock{mutex_};
    if (finishing_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void job_thread::finish() {
  {
    const std::lock_guard lock{mutex_};
    finishing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void job_thread::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [this] { return finishing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    try {
      job();
    } catch (const std::exception& e) {  // out of memory, say: whoever waits for it has a deadline
      log().error("a job failed: {}", e.what());
    }
    lock.lock();
  }
}

}  // namespace ftrt::host
