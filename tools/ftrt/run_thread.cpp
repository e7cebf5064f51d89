#include "tools/ftrt/run_thread.hpp"

#include <exception>
#include <utility>

namespace ftrt::cli {

run_thread::run_thread(starter start, mailbox& news)
    : news_(news), thread_([this, start = std::move(start)] { work(start); }) {}

run_thread::~run_thread() {
  if (!thread_.joinable()) return;
  stop_now();
  thread_.join();
}

run_options run_thread::callbacks() {
  run_options options;
  options.on_event = [this](const event& happened) { news_.push(happened); };
  options.on_progress = [this](const progress& moment) { news_.push(moment); };
  return options;
}

void run_thread::begin(const starter& start) {
  auto started = start(callbacks());
  if (!started) {
    outcome_.not_started = std::move(started.error());
    return;
  }
  run* running = started->get();
  outcome_.started = true;
  outcome_.directory = running->directory();
  {
    const std::lock_guard lock(mutex_);
    run_ = std::move(*started);
    starting_ = false;
    if (!stop_reason_.empty()) run_->request_stop(stop_reason_);
    if (stop_at_once_) run_->stop_now();
  }
  outcome_.summary = running->wait();
  // Its callbacks end here, before the mailbox may.
  const std::lock_guard lock(mutex_);
  run_.reset();
}

void run_thread::work(const starter& start) {
  try {
    begin(start);
  } catch (const std::exception& thrown) {
    outcome_.started = false;
    outcome_.not_started.failed = error{error_code::internal, thrown.what(), "running"};
  }
  finished_ = true;
  news_.wake();
}

void run_thread::request_stop(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  stop_reason_ = reason;
  if (run_) run_->request_stop(reason);
}

void run_thread::stop_now() {
  const std::lock_guard lock(mutex_);
  stop_at_once_ = true;
  if (run_) run_->stop_now();
}

outcome run_thread::take() {
  thread_.join();
  return std::move(outcome_);
}

}  // namespace ftrt::cli
