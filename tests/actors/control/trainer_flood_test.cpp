// A worker that talks faster than anybody listens has to wait: nothing that it says fills the
// mailboxes of control.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <actors/control/trainer.hpp>
#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <mutex>
#include <schemas/protocol/channel.hpp>
#include <thread>
#include <vector>

namespace ftrt::actors {
namespace {

using namespace std::chrono_literals;

// What the trainer reads at a time may come on top of its bound.
constexpr std::size_t most_frames = 4096;
constexpr std::size_t flood_bytes = std::size_t{64} << 20;

// A run_supervisor that does not come to deal with anything, until it is let.
class listener {
 public:
  run_supervisor_actor spawn(caf::actor_system& system) {
    return system.spawn([this]() -> run_supervisor_actor::behavior_type {
      return {
          [](const trainer_ready&) {},
          [this](const worker_message& said) { hear(said); },
          [](const worker_start_failed&) {},
          [](const worker_exited&) {},
          [](const recovery::source_found&) {},
          [](const checkpoint_settled&) {},
          [](const stop_run&) {},
          [](tick) {},
          [](const deadline_alarm&) {},
          [](const backoff_over&) {},
      };
    });
  }
  void deal_with_all() {
    const std::lock_guard lock{mutex_};
    deals_ = true;
    waiting_.clear();
  }
  [[nodiscard]] std::size_t heard() const { return heard_; }

 private:
  void hear(const worker_message& said) {
    const std::lock_guard lock{mutex_};
    ++heard_;
    if (!deals_) waiting_.push_back(said);
  }

  std::mutex mutex_;
  bool deals_ = false;
  std::vector<worker_message> waiting_;
  std::atomic<std::size_t> heard_{0};
};

class flood : public ::testing::Test {
 protected:
  flood() {
    configure_for_trainers(config_);
    config_.set("scheduler.max-threads", std::size_t{2});
    system_.emplace(config_);
    context_.actors.set(listener_.spawn(*system_));
    auto ends = protocol::socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
    worker_ = std::move(ends->first);
    trainer_ =
        spawn_trainer(*system_, context_, rank_id{0}, incarnation_id{1}, std::move(ends->second));
    const auto frame = protocol::encode_frame(protocol::peer_lost{}).value();
    frame_bytes_ = frame.size();
    while (water_.size() < (64u << 10)) water_.insert(water_.end(), frame.begin(), frame.end());
  }
  // In order, as nobody else takes them down: the worker's end closes last.
  ~flood() override {
    caf::scoped_actor self{*system_};
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(trainer_),
          caf::actor_cast<caf::actor>(context_.actors.get<run_supervisor_actor>())}) {
      self->monitor(actor);
      self->send_exit(actor, caf::exit_reason::user_shutdown);
      self->receive([](const caf::down_msg&) {}, caf::after(10s) >> [] { ADD_FAILURE(); });
    }
    context_.actors.clear();
    trainer_ = trainer_actor{};
  }

  // Whole frames, one after another. False: for so long the socket took nothing.
  bool write(std::size_t bytes, std::chrono::milliseconds patience) {
    const auto end = written_ + bytes;
    while (written_ < end || written_ % frame_bytes_ != 0) {
      const auto at = written_ % water_.size();
      const auto most =
          written_ < end ? water_.size() - at : frame_bytes_ - written_ % frame_bytes_;
      const auto taken = ::send(worker_.get(), water_.data() + at, most, MSG_NOSIGNAL);
      if (taken > 0) {
        written_ += static_cast<std::size_t>(taken);
        continue;
      }
      pollfd writable{worker_.get(), POLLOUT, 0};
      if (::poll(&writable, 1, static_cast<int>(patience.count())) == 0) return false;
    }
    return true;
  }

  caf::actor_system_config config_;
  listener listener_;
  run_context context_;
  std::optional<caf::actor_system> system_;
  unique_fd worker_;
  trainer_actor trainer_;
  std::vector<std::byte> water_;
  std::size_t frame_bytes_ = 0;
  std::size_t written_ = 0;
};

TEST_F(flood, is_held_up_while_nobody_deals_with_it_and_then_goes_on) {
  EXPECT_FALSE(write(flood_bytes, 300ms)) << "all of it was read, though nobody dealt with any";
  EXPECT_LE(listener_.heard(), most_frames);
  listener_.deal_with_all();
  ASSERT_TRUE(write(1u << 20, 10s));
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (listener_.heard() < written_ / frame_bytes_ &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(listener_.heard(), written_ / frame_bytes_) << "nothing is lost";
}

}  // namespace
}  // namespace ftrt::actors
