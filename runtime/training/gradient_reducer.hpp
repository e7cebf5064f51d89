#pragma once

#include <cstddef>
#include <exception>
#include <ftrt/error.hpp>
#include <functional>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <runtime/training/bucket_plan.hpp>
#include <runtime/training/tensor_binding.hpp>
#include <utility>
#include <vector>

namespace ftrt::training {

// Leaves a backward() whose generation has ended: nobody waits for its gradients any more.
class generation_ended final : public std::exception {
 public:
  explicit generation_ended(error why) : why_(std::move(why)) {}
  [[nodiscard]] const error& why() const { return why_; }
  [[nodiscard]] const char* what() const noexcept override { return "the generation has ended"; }

 private:
  error why_;
};

// Starts the reduction of each gradient bucket while backward is still at work on the ones before
// it. Owned by a trainer; its hooks run on the thread that calls backward().
//
//   reducer.guard(comm);      // before the window's first micro-batch
//   reducer.arm(comm);        // before the last micro-batch's backward
//   loss.backward();
//   result<void> ok = reducer.flush();   // begins what is left, tells of the first error
//
// Buckets are begun in the plan's order on every rank: bucket i+1 never before i. A parameter that
// got no gradient holds its bucket, and those after it, back until flush().
class gradient_reducer {
 public:
  gradient_reducer(const model_tensors& tensors, bucket_plan plan);
  ~gradient_reducer();
  gradient_reducer(const gradient_reducer&) = delete;
  gradient_reducer& operator=(const gradient_reducer&) = delete;

  // Until disarm(), each gradient asks whether the generation still lives, and throws
  // generation_ended out of backward() where it does not.
  void guard(communicator& comm) { guard_ = &comm; }
  // The micro-batch that comes now is the window's last one.
  void arm(communicator& comm);
  // Begins the remaining buckets in order (all, where nothing was armed for).
  [[nodiscard]] result<void> flush();
  // Forgets an iteration that was given up; the hooks do nothing until the next arm().
  void disarm();
  // What collectives have taken since arm(), which is no part of computing.
  [[nodiscard]] std::int64_t spent_ns() const { return spent_ns_; }
  // Called with each region before its reduction begins, from inside backward(): must not throw.
  void set_inspector(std::function<void(const bucket_region&)> inspector) {
    inspector_ = std::move(inspector);
  }

 private:
  struct hooks;
  void parameter_ready(std::size_t parameter);
  void begin_next();

  bucket_plan plan_;
  std::vector<std::size_t> missing_;  // bucket -> parameters without their gradient
  std::size_t next_ = 0;
  communicator* guard_ = nullptr;
  communicator* comm_ = nullptr;
  result<void> status_;
  std::int64_t spent_ns_ = 0;
  std::unique_ptr<hooks> hooks_;
  std::function<void(const bucket_region&)> inspector_;
};

}  // namespace ftrt::training
