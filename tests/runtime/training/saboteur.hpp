#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <runtime/communicator/communicator.hpp>
#include <thread>
#include <utility>

namespace ftrt::testing {

// What goes wrong around the nth exchange (from 1) of a generation.
struct sabotage {
  enum class mode {
    lose_answer,  // the word got out and all answered, but this rank is stopped before it knows
    die_after,    // the same, and the process is gone
    die_before,   // killed before its word got out
    abort_later,  // aborted from another thread, `delay` after the exchange, wherever it is then
    die_later,    // killed in the same way
  };
  std::uint32_t ranks = 1;  // bit r: rank r does it
  std::uint64_t exchange = 1;
  mode how = mode::lose_answer;
  std::chrono::microseconds delay{0};
};

// A communicator that does what it is told, but for one exchange. `abort_safely` may be called by
// any thread, also when this object is gone.
class saboteur final : public communicator {
 public:
  saboteur(std::shared_ptr<communicator> inner, sabotage plan, std::function<void()> abort_safely)
      : inner_(std::move(inner)), plan_(plan), abort_safely_(std::move(abort_safely)) {}

  [[nodiscard]] rank_id rank() const override { return inner_->rank(); }
  [[nodiscard]] std::uint32_t world_size() const override { return inner_->world_size(); }
  [[nodiscard]] generation_id generation() const override { return inner_->generation(); }
  result<void> begin_all_reduce(const bucket_region& r, reduce_op op) override {
    return inner_->begin_all_reduce(r, op);
  }
  result<void> finish_reductions() override { return inner_->finish_reductions(); }
  result<void> reduce_scatter(const bucket_region& r, reduce_op op) override {
    return inner_->reduce_scatter(r, op);
  }
  result<void> all_gather(const bucket_region& r) override { return inner_->all_gather(r); }
  result<void> broadcast(std::span<std::byte> b, rank_id root) override {
    return inner_->broadcast(b, root);
  }
  result<void> send(std::span<const std::byte> b, rank_id to) override {
    return inner_->send(b, to);
  }
  result<void> recv(std::span<std::byte> b, rank_id from) override { return inner_->recv(b, from); }
  result<void> barrier() override { return inner_->barrier(); }
  result<void> check() override { return inner_->check(); }

  result<void> exchange(std::uint64_t key, std::span<const std::byte> mine,
                        std::span<std::byte> all) override {
    const bool now = ++exchanges_ == plan_.exchange;
    if (now && plan_.how == sabotage::mode::die_before) ::raise(SIGKILL);
    auto status = inner_->exchange(key, mine, all);
    if (!now || !status) return status;
    switch (plan_.how) {
      case sabotage::mode::die_after:
        ::raise(SIGKILL);
        break;
      case sabotage::mode::abort_later:
        later(abort_safely_);
        return status;
      case sabotage::mode::die_later:
        later([] { ::kill(::getpid(), SIGKILL); });
        return status;
      default:
        break;
    }
    inner_->abort();
    return fail(error_code::aborted, "the test lost this answer");
  }
  bool exchanged(std::uint64_t key, std::span<std::byte> all) override {
    return inner_->exchanged(key, all);
  }
  [[nodiscard]] std::uint64_t sequence() const override { return inner_->sequence(); }
  [[nodiscard]] std::vector<rank_id> lost_peers() const override { return inner_->lost_peers(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  // A fault comes when it comes: this is what the delay is for, not to wait for something.
  void later(std::function<void()> what) const {
    std::thread([what = std::move(what), delay = plan_.delay] {
      std::this_thread::sleep_for(delay);
      what();
    }).detach();
  }

  std::shared_ptr<communicator> inner_;
  sabotage plan_;
  std::function<void()> abort_safely_;
  std::uint64_t exchanges_ = 0;
};

}  // namespace ftrt::testing
