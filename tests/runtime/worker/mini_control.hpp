#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <ftrt/scenario.hpp>
#include <memory>
#include <schemas/protocol/channel.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <stdexcept>
#include <storage/progress.hpp>
#include <storage/shared_memory.hpp>
#include <string>
#include <tests/support/eventually.hpp>
#include <tests/support/processes.hpp>
#include <vector>

namespace ftrt::testing {

// The other end of one worker. What control would keep in its host table.
struct worker_end {
  rank_id rank;
  incarnation_id incarnation;
  int pid = 0;
  unique_fd pidfd;
  unique_fd control;
  unique_fd lifeline;
  storage::shared_memory progress, snapshots, bucket, state;
  protocol::frame_reader reader;
  std::vector<protocol::message> skipped;  // by expect(), while it looked for another type
};

// Just enough of control to drive the real worker program: one zygote, its workers, no decisions of
// its own. Every wait has a deadline and throws when it passes. The destructor closes the zygote's
// channel and returns when no process is left; `leftovers` is for a test to look at before.
class mini_control {
 public:
  static constexpr std::chrono::seconds patience = test::usual_patience;

  // `one_thread_environment`: whether OMP_NUM_THREADS=1 and MKL_NUM_THREADS=1 are set for it.
  explicit mini_control(const std::filesystem::path& worker_program,
                        bool one_thread_environment = true);
  ~mini_control();
  mini_control(const mini_control&) = delete;
  mini_control& operator=(const mini_control&) = delete;

  // zygote_ready or zygote_refused.
  protocol::message configure(const scenario& values, bool check_only = false);
  // The same where it must be ready.
  const protocol::zygote_ready& start(const scenario& values);

  // The next incarnation of a rank; it has said hello.
  worker_end& fork(std::uint32_t rank);
  // A spare that has said that it is ready; one at a time.
  worker_end& fork_spare(std::uint32_t number = 1);
  // The spare becomes the next incarnation of a rank; it has said hello.
  worker_end& assign_spare(std::uint32_t rank);
  worker_end& spare() {
    return *spare_;
  }
  worker_end& at(std::uint32_t rank) {
    return *workers_.at(rank);
  }

  // Sends a join of `generation` to every rank in `ranks`; all get one fresh sync block.
  struct part {
    std::uint32_t rank = 0;
    protocol::state_role role = protocol::state_role::initial;
    std::uint64_t iteration = 0;
    std::uint32_t source = 0;
  };
  void send_joins(std::uint64_t generation, std::uint32_t world_size,
                  const std::vector<part>& parts);
  // send_joins(), all have joined with one digest, all were told to train.
  void join_and_train(std::uint64_t generation, const std::vector<part>& parts);

  void send(std::uint32_t rank, const protocol::message& m);
  void send_packet(std::uint32_t rank, const protocol::message& m, std::vector<int> descriptors);
  void send_to_zygote(const protocol::message& m, std::vector<int> descriptors = {});
  // Closes the control socket of a rank and attaches another one.
  void send_attach(std::uint32_t rank);
  // The same; the hello that answers.
  protocol::hello reattach(std::uint32_t rank);

  // The next message of this type from the rank; others are kept in `skipped`.
  template <class T>
  T expect(std::uint32_t rank) {
    return expect_from<T>(at(rank));
  }
  template <class T>
  T expect_from_zygote() {
    return std::get<T>(next_from_zygote());
  }

  void wait_committed(std::uint32_t rank, std::uint64_t iteration);
  void kill(std::uint32_t rank, int signal);
  void close_channel() { channel_.reset(); }
  [[nodiscard]] const unique_fd& zygote_pidfd() const {
    return zygote_pidfd_;
  }
  [[nodiscard]] int zygote_pid() const {
    return zygote_pid_;
  }
  // Exit status of the zygote, which must end on its own.
  int wait_for_zygote();

 private:
  template <class T>
  T expect_from(worker_end& worker) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
      auto m = next_message(worker, deadline, protocol::name_of(T{}));
      if (auto* wanted = std::get_if<T>(&m)) return std::move(*wanted);
      worker.skipped.push_back(std::move(m));
    }
  }
  std::unique_ptr<worker_end> order_fork(const protocol::fork_worker& order);
  incarnation_id retire(std::uint32_t rank);
  worker_end& place(std::uint32_t rank, std::unique_ptr<worker_end> worker);
  protocol::message next_message(worker_end& worker, protocol::time_point deadline,
                                 std::string_view wanted);
  protocol::packet next_packet();
  protocol::message next_from_zygote() {
    return next_packet().body;
  }

  unique_fd channel_;
  int zygote_pid_ = 0;
  unique_fd zygote_pidfd_;
  bool zygote_reaped_ = false;
  protocol::zygote_ready ready_;
  std::deque<std::unique_ptr<worker_end>> workers_;  // by rank, newest incarnation
  std::unique_ptr<worker_end> spare_;
  std::vector<std::unique_ptr<worker_end>> retired_;  // their pidfds are still looked at
};

// Two ranks on synthetic data, a few thousand fast iterations.
[[nodiscard]] scenario small_scenario();

}  // namespace ftrt::testing
