#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <runtime/communicator/communicator.hpp>
#include <utility>
#include <vector>

namespace ftrt::testing {

// The communicator of one rank alone: every reduction is already done. Counts its calls and can
// fail from a chosen one on, as an abort would.
class lone_communicator final : public communicator {
 public:
  explicit lone_communicator(generation_id generation) : generation_(generation) {}

  // The call with this number (from 1) and all after it fail. `contribute`: if that call is an
  // exchange, the word still gets out before the rank is stopped.
  void fail_at(std::uint64_t call, bool contribute) {
    fail_at_ = call;
    contribute_ = contribute;
  }
  // The look with this number (from 1), between two calls, finds the generation ended.
  void end_at_look(std::uint64_t look) { end_at_look_ = look; }
  // Calls `stop` at the reductions of iteration k, before its word is made.
  void stop_at(std::uint64_t k, std::function<void()> stop) {
    stop_iteration_ = k;
    stop_ = std::move(stop);
  }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] const std::vector<bucket_region>& regions() const { return regions_; }

  [[nodiscard]] rank_id rank() const override { return rank_id{0}; }
  [[nodiscard]] std::uint32_t world_size() const override { return 1; }
  [[nodiscard]] generation_id generation() const override { return generation_; }

  result<void> begin_all_reduce(const bucket_region& region, reduce_op) override {
    regions_.push_back(region);
    return next();
  }
  result<void> finish_reductions() override {
    if (stop_ && ++iterations_ == stop_iteration_) stop_();
    return next();
  }
  result<void> reduce_scatter(const bucket_region&, reduce_op) override { return next(); }
  result<void> all_gather(const bucket_region&) override { return next(); }
  result<void> broadcast(std::span<std::byte>, rank_id) override { return next(); }
  result<void> send(std::span<const std::byte>, rank_id) override { return next(); }
  result<void> recv(std::span<std::byte>, rank_id) override { return next(); }
  result<void> barrier() override { return next(); }

  result<void> exchange(std::uint64_t key, std::span<const std::byte> mine,
                        std::span<std::byte> all) override {
    FTRT_ASSERT(mine.size() == all.size() && mine.size() <= max_word_bytes);
    FTRT_ASSERT(key > last_key_);
    auto status = next();
    if (!status && !(contribute_ && calls_ == fail_at_)) return status;
    last_key_ = key;
    words_[key] = {mine.begin(), mine.end()};
    std::ranges::copy(mine, all.begin());
    return status;
  }
  bool exchanged(std::uint64_t key, std::span<std::byte> all) override {
    const auto found = words_.find(key);
    if (found == words_.end()) return false;
    std::ranges::copy(found->second, all.begin());
    return true;
  }

  // No call of its own, so that it does not count.
  result<void> check() override {
    if (++looks_ == end_at_look_) abort();
    if (aborted_ || calls_ >= fail_at_) return fail(error_code::aborted, "the test aborted");
    return {};
  }

  [[nodiscard]] std::uint64_t sequence() const override { return calls_; }
  [[nodiscard]] std::vector<rank_id> lost_peers() const override { return {}; }
  void abort() noexcept override {
    fail_at_ = calls_ + 1;
    aborted_ = true;
  }

 private:
  result<void> next() {
    if (++calls_ >= fail_at_) return fail(error_code::aborted, "the test aborted this call");
    return {};
  }

  generation_id generation_;
  std::uint64_t calls_ = 0;
  std::uint64_t fail_at_ = ~0ULL;
  bool contribute_ = false;
  std::uint64_t looks_ = 0;
  std::uint64_t end_at_look_ = 0;
  bool aborted_ = false;
  std::uint64_t last_key_ = 0;
  std::map<std::uint64_t, std::vector<std::byte>> words_;
  std::vector<bucket_region> regions_;
  std::uint64_t iterations_ = 0;
  std::uint64_t stop_iteration_ = 0;
  std::function<void()> stop_;
};

}  // namespace ftrt::testing
