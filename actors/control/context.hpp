#pragma once

#include <actors/control/actors.hpp>
#include <actors/control/drop_account.hpp>
#include <actors/control/history_rows.hpp>
#include <actors/control/snapshot_sets.hpp>
#include <actors/control/standing_orders.hpp>
#include <actors/host/forensics.hpp>
#include <actors/host/job_thread.hpp>
#include <actors/host/observer.hpp>
#include <actors/host/run_board.hpp>
#include <actors/host/series_sink.hpp>
#include <actors/host/storage_queue.hpp>
#include <actors/host/worker_host.hpp>
#include <caf/send.hpp>
#include <ftrt/event.hpp>
#include <ftrt/scenario.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <storage/run_directory.hpp>
#include <string>
#include <tuple>
#include <utility>

namespace ftrt::actors {

// Who is who at the moment: an actor that was restarted is found here under its old name. Any
// thread. Holds handles, so it is emptied before the actor system ends.
class actor_directory {
 public:
  template <class Handle>
  void set(const Handle& handle) {
    const std::lock_guard lock{mutex_};
    std::get<Handle>(handles_) = handle;
  }
  template <class Handle>
  [[nodiscard]] Handle get() const {
    const std::lock_guard lock{mutex_};
    return std::get<Handle>(handles_);
  }
  void set_trainer(rank_id rank, incarnation_id incarnation, const trainer_actor& trainer) {
    const std::lock_guard lock{mutex_};
    trainers_[rank] = {incarnation, trainer};
  }
  [[nodiscard]] trainer_actor trainer(rank_id rank) const {
    const std::lock_guard lock{mutex_};
    const auto found = trainers_.find(rank);
    return found == trainers_.end() ? trainer_actor{} : found->second.actor;
  }
  // Of this very worker: none between the order of a worker and its start, when the rank's trainer
  // is still the one of the worker before.
  [[nodiscard]] trainer_actor trainer(rank_id rank, incarnation_id incarnation) const {
    const std::lock_guard lock{mutex_};
    const auto found = trainers_.find(rank);
    const bool its_own = found != trainers_.end() && found->second.incarnation == incarnation;
    return its_own ? found->second.actor : trainer_actor{};
  }
  void clear() {
    const std::lock_guard lock{mutex_};
    handles_ = {};
    trainers_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::tuple<host_supervisor_actor, run_supervisor_actor, checkpoint_actor, metrics_actor,
             chaos_actor>
      handles_;
  struct trainer_entry {
    incarnation_id incarnation;
    trainer_actor actor;
  };
  std::map<rank_id, trainer_entry> trainers_;
};

// What the run_supervisor has counted of failures, for the one that takes over from it. Any thread.
class kept_counts {
 public:
  void keep(recovery::failure_counts now) {
    const std::lock_guard lock{mutex_};
    counts_ = std::move(now);
  }
  [[nodiscard]] recovery::failure_counts get() const {
    const std::lock_guard lock{mutex_};
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  recovery::failure_counts counts_;
};

// What all actors of a run share: the things outside the actors, and the way to each other.
struct run_context {
  scenario values;
  std::string run_id;
  storage::run_directory* directory = nullptr;
  host::worker_host* host = nullptr;
  host::storage_queue* storage = nullptr;
  host::job_queue* searcher = nullptr;  // for a state to come back to
  host::run_board* board = nullptr;
  host::observer* observer = nullptr;
  host::forensics* forensics = nullptr;
  host::series_sink* series = nullptr;  // storage thread only; nullptr: no TensorBoard
  standing_orders* orders = nullptr;
  kept_counts* counts = nullptr;
  set_holder* holder = nullptr;  // of snapshots that wait for the disk
  drop_account* drops = nullptr;
  history_rows* history = nullptr;  // storage thread only
  actor_directory actors;

  // Sends to whoever is this actor now; dropped where there is none.
  template <class Handle, class Message>
  void post(Message message) const {
    if (const auto receiver = actors.get<Handle>()) caf::anon_send(receiver, std::move(message));
  }

  // An event of the run: log, catalog, observer.
  void record(event::kind what, std::string subject, std::string text,
              std::optional<rank_id> rank = std::nullopt, iteration_id iteration = {}) const;
  // The same, in the log before this returns. Blocks for the page cache.
  void record_now(event::kind what, std::string subject, std::string text,
                  std::optional<rank_id> rank = std::nullopt, iteration_id iteration = {}) const;

 private:
  [[nodiscard]] event event_of(event::kind what, std::string subject, std::string text,
                               std::optional<rank_id> rank, iteration_id iteration) const;
};

}  // namespace ftrt::actors
