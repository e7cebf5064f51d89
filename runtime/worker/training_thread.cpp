#include <pthread.h>

#include <runtime/worker/training_thread.hpp>
#include <system_error>

namespace ftrt::worker {

training_thread::~training_thread() {
  commands_.close();
  if (thread_.joinable()) thread_.join();
}

result<void> training_thread::start() {
  try {
    thread_ = std::thread{[this] { loop_.run(commands_); }};
  } catch (const std::system_error& e) {
    return fail_errno("cannot start the training thread", e.code().value());
  }
  ::pthread_setname_np(thread_.native_handle(), "ftrt-train");
  return {};
}

}  // namespace ftrt::worker
