#pragma once

#include <actors/control/chaos_schedule.hpp>
#include <actors/control/host_supervisor.hpp>
#include <actors/host/clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <storage/catalog.hpp>
#include <storage/run_directory.hpp>
#include <string>
#include <tests/actors/control/imitated_workers.hpp>
#include <tests/support/temporary_folder.hpp>
#include <vector>

namespace ftrt::actors::testing {

// The disk, on the thread of the test: a real catalog and real files, which get their turn when the
// test says so.
class patient_disk final : public host::storage_queue {
 public:
  explicit patient_disk(storage::catalog catalog) : catalog_(std::move(catalog)) {}

  void post(job work) override { jobs_.push_back(std::move(work)); }
  [[nodiscard]] bool post_if_room(job work) override;
  void record(event what) override { events_.push_back(std::move(what)); }
  void record_now(event what) override { record(std::move(what)); }

  bool hangs = false;
  [[nodiscard]] bool has_job() const { return !hangs && !jobs_.empty(); }
  void run_once();
  [[nodiscard]] const std::vector<event>& events() const { return events_; }

 private:
  storage::catalog catalog_;
  std::deque<job> jobs_;
  std::vector<event> events_;
};

class patient_searcher final : public host::job_queue {
 public:
  void post(std::string, std::function<void()> job) override { jobs_.push_back(std::move(job)); }
  [[nodiscard]] bool is_finishing() const override { return false; }
  [[nodiscard]] bool has_job() const { return !jobs_.empty(); }
  void run_once();

 private:
  std::deque<std::function<void()>> jobs_;
};

// A whole run of real actors in virtual time, on one thread: CAF's testing scheduler, imitated
// workers, a disk that waits its turn, and a clock that only moves when nothing else is to be done.
// So hours pass in a second, and a run takes the same way each time; `order` draws another one.
//
//   virtual_run run{[](scenario& values) { values.supervision.park_timeout = 2h; }};
//   run.until([&] { return run.workers().committed() == 10; });
//   run.workers().die(rank_id{1}, "killed");
//   run.to_its_end(1h);
class virtual_run {
 public:
  using duration = std::chrono::nanoseconds;

  explicit virtual_run(const std::function<void(scenario&)>& adjust = {},
                       std::uint64_t total_iterations = 30,
                       std::optional<std::uint64_t> order = std::nullopt);
  ~virtual_run();
  virtual_run(const virtual_run&) = delete;
  virtual_run& operator=(const virtual_run&) = delete;

  // One thing happens, if only that time passes. False: nothing ever will.
  bool step();
  // False: not within so much virtual time.
  bool until(const std::function<bool()>& condition, duration most = std::chrono::hours{1});
  // What the run came to, and a test failure where it does not end.
  recovery::end_run to_its_end(duration most = std::chrono::hours{1});
  void pass(duration time);

  [[nodiscard]] imitated_workers& workers() { return workers_; }
  [[nodiscard]] patient_disk& disk() { return *disk_; }
  [[nodiscard]] run_context& context() { return context_; }
  [[nodiscard]] host::run_board& board() { return *board_; }
  [[nodiscard]] caf::actor_system& system() { return *system_; }
  [[nodiscard]] duration elapsed() const { return host::monotonic_now() - begun_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] const std::optional<recovery::end_run>& end() const { return end_; }
  // Of events of that kind, the texts.
  [[nodiscard]] std::vector<std::string> texts(event::kind what) const;

  // The actor of that name ("run_supervisor", "trainer:1", ...) dies. False: there is none.
  bool kill(const std::string& name);
  // Asks all actors to leave, in the order of live_run::shut_down, without letting time pass. How
  // many are left.
  std::size_t take_down();

 private:
  [[nodiscard]] bool do_what_is_due();
  [[nodiscard]] bool let_time_pass();
  void spawn_root();
  [[nodiscard]] caf::actor find(const std::string& name) const;

  host::held_clock clock_;
  duration begun_ = host::monotonic_now();
  test::temporary_folder folder_{"/dev/shm"};
  std::optional<storage::run_directory> directory_;
  host::observer observer_{nullptr, nullptr};
  imitated_workers workers_;
  std::unique_ptr<patient_disk> disk_;
  patient_searcher searcher_;
  std::unique_ptr<host::run_board> board_;
  std::unique_ptr<host::forensics> forensics_;
  std::unique_ptr<chaos_schedule> chaos_;
  standing_orders orders_;
  kept_counts counts_;
  set_holder holder_;
  std::optional<drop_account> drops_;
  history_rows rows_;
  run_context context_;
  std::optional<recovery::end_run> end_;
  bool root_died_ = false;
  std::uint64_t steps_ = 0;
  std::optional<std::mt19937_64> order_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
};

}  // namespace ftrt::actors::testing
