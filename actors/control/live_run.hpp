#pragma once

#include <actors/control/chaos_schedule.hpp>
#include <actors/control/context.hpp>
#include <actors/control/expectations.hpp>
#include <actors/control/run_supervisor.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/job_thread.hpp>
#include <actors/host/stop_watch.hpp>
#include <actors/host/storage_thread.hpp>
#include <condition_variable>
#include <ftrt/run.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <storage/catalog.hpp>
#include <storage/run_directory.hpp>
#include <string>
#include <thread>
#include <vector>

namespace ftrt::actors {

// What a run starts from, made ready by run::start() or run::resume(): data checked, directory
// held, its catalog open.
struct prepared_run {
  scenario values;
  std::unique_ptr<host::host_table> host;
  storage::run_directory directory;
  storage::catalog catalog;
  std::vector<std::string> notes;  // what was done to the catalog, for events
  recovery::begin beginning;
  std::vector<event> past = {};  // of a run that is resumed
};

// A run at work: owns everything outside the actors, and the thread in whose stack the actor system
// lives. The thread builds the run up, waits for its end and takes it down in the one order that
// shut_down() writes out; the destructor makes sure that it did.
class live_run final : public run {
 public:
  [[nodiscard]] static tl::expected<std::unique_ptr<run>, start_error> begin(
      prepared_run prepared, const run_options& options);
  ~live_run() override;

  [[nodiscard]] const std::string& id() const override { return directory_.id(); }
  [[nodiscard]] const std::filesystem::path& directory() const override {
    return directory_.path();
  }
  void request_stop(const std::string& reason) override;
  void stop_now() override;
  [[nodiscard]] run_summary wait() override;
  [[nodiscard]] std::optional<run_summary> wait_for(std::chrono::milliseconds timeout) override;

 private:
  // The host table's news, sent on to the actors.
  class host_news;

  live_run(prepared_run prepared, const run_options& options, storage::event_log log);

  void live();
  void run_actors();
  void spawn_root(caf::actor_system& system);
  void shut_down(caf::actor_system& system, const recovery::end_run& how);
  void set_end(const recovery::end_run& how);
  [[nodiscard]] recovery::end_run wait_for_end(caf::actor_system& system);
  void conclude(const recovery::end_run& how);
  void tell_of_missed_faults(const run_summary& summary) const;
  void judge(run_summary& summary);
  [[nodiscard]] fault_free_outcome train_without_faults();
  void end_reference();
  void stop_reference();
  [[nodiscard]] std::chrono::milliseconds patience() const;

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  storage::run_directory directory_;
  recovery::begin beginning_;
  std::unique_ptr<host::host_table> host_;
  host::observer observer_;
  std::optional<host::series_sink> series_;
  host::run_board board_;
  std::filesystem::path worker_program_;
  std::vector<fault_history> history_;
  chaos_schedule chaos_;
  standing_orders orders_;
  kept_counts counts_;
  set_holder holder_;
  drop_account drops_;
  history_rows rows_;
  run_context context_;  // what is queued below may still look into it
  host::storage_thread storage_;
  host::forensics forensics_;
  host::job_thread searcher_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<recovery::end_run> end_;
  std::unique_ptr<run> reference_;  // the same run without faults, while it is made
  bool root_died_ = false;
  bool stopping_ = false;  // somebody asked for it
  std::optional<run_summary> summary_;
  std::optional<host::stop_watch> stop_watch_;  // the thread's
  std::thread thread_;
};

}  // namespace ftrt::actors
