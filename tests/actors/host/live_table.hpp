#pragma once

#include <gtest/gtest.h>

#include <actors/host/host_table.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <ftrt/scenario.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tests/support/eventually.hpp>
#include <utility>

// A host table with the real worker program.
namespace ftrt::host {

constexpr auto patience = test::usual_patience;

inline scenario small_scenario() {
  scenario values;
  values.cluster.ranks = 2;
  values.model.kind = "mlp";
  values.model.layers = {16, 12, 4};
  values.data.kind = "synthetic";
  values.data.samples = 512;
  values.data.test_samples = 64;
  values.train.global_batch = 16;
  values.train.micro_batch = 4;
  values.supervision.grace_period = std::chrono::milliseconds{500};
  return values;
}

// Remembers what the table says; a test waits for it.
class listener final : public host_listener {
 public:
  void worker_started(rank_id rank, incarnation_id incarnation) override {
    note("started " + name(rank, incarnation));
  }
  void worker_start_failed(rank_id rank, incarnation_id incarnation,
                           const std::string& text) override {
    note("failed " + name(rank, incarnation) + " " + text);
  }
  void worker_exited(rank_id rank, incarnation_id incarnation) override {
    note("exited " + name(rank, incarnation));
  }
  void worker_wrote(rank_id, const std::string&) override {}
  void zygote_replaced(const std::string&) override { note("zygote"); }

  [[nodiscard]] bool hears(const std::string& what) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return heard_.contains(what); });
  }
  // Whoever says this is kept until release(): the table's thread, which then sees no death.
  void hold_at(std::string what) {
    const std::lock_guard lock{mutex_};
    held_at_ = std::move(what);
  }
  void release() {
    hold_at({});
    changed_.notify_all();
  }
  [[nodiscard]] std::multiset<std::string> heard() {
    const std::lock_guard lock{mutex_};
    return heard_;
  }

 private:
  static std::string name(rank_id rank, incarnation_id incarnation) {
    return std::to_string(rank.value()) + "." + std::to_string(incarnation.value());
  }
  void note(std::string what) {
    std::unique_lock lock{mutex_};
    heard_.insert(what);
    changed_.notify_all();
    changed_.wait(lock, [&] { return held_at_ != what; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::string> heard_;
  std::string held_at_;
};

class live_table : public ::testing::Test {
 protected:
  // With so many spares, and no rank yet.
  void start(std::uint32_t count) {
    host_config config;
    config.worker_program = std::filesystem::path{std::getenv("FTRT_BIN")} / "ftrt-worker";
    config.scenario_toml = to_toml(small_scenario());
    config.ranks = 2;
    config.start_timeout = patience;
    config.grace_period = std::chrono::milliseconds{500};
    config.spares = count;
    auto started = host_table::start(std::move(config));
    ASSERT_TRUE(started) << (started.error().failed ? started.error().failed->describe()
                                                    : "refused");
    table_ = std::move(*started);
    table_->set_listener(&listener_);
  }
  ~live_table() override {
    listener_.release();
    if (table_) table_->set_listener(nullptr);
  }

  void spawn(std::uint32_t rank, std::uint32_t incarnation) {
    table_->spawn_worker(rank_id{rank}, incarnation_id{incarnation});
    ASSERT_TRUE(
        listener_.hears("started " + std::to_string(rank) + "." + std::to_string(incarnation)));
  }
  std::shared_ptr<const worker_entry> worker(std::uint32_t rank) {
    return table_->worker(rank_id{rank});
  }
  [[nodiscard]] bool has_spares(std::size_t count) {
    return test::eventually([&] { return table_->warm_spares().size() == count; });
  }

  listener listener_;
  std::unique_ptr<host_table> table_;
};

}  // namespace ftrt::host
