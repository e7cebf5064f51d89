#pragma once

#include <sys/types.h>

#include <actors/host/state_shelf.hpp>
#include <actors/host/worker_entry.hpp>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <vector>

namespace ftrt::host {

// What a host tells the actors. Called on a thread of the host's own; must not block.
class host_listener {
 public:
  virtual ~host_listener() = default;
  // The worker runs; its first control socket waits to be taken.
  virtual void worker_started(rank_id rank, incarnation_id incarnation) = 0;
  virtual void worker_start_failed(rank_id rank, incarnation_id incarnation,
                                   const std::string& text) = 0;
  // The process is known dead: no thread of it can write anywhere any more.
  virtual void worker_exited(rank_id rank, incarnation_id incarnation) = 0;
  // A worker printed this.
  virtual void worker_wrote(rank_id rank, const std::string& text) = 0;
  // The zygote died, or hung and was killed; `text` says so, and what came of replacing it. Workers
  // live on.
  virtual void zygote_replaced(const std::string& text) = 0;
};

// What actors may ask of the processes of a run: the host table's face towards them, and the seam
// at which their tests put a world without processes (tests/actors/control). Any thread may call;
// no call blocks.
class worker_host {
 public:
  virtual ~worker_host() = default;

  // What the zygote said of model and data.
  [[nodiscard]] virtual const protocol::zygote_ready& program() const = 0;

  // Hands a warm spare out where there is one, else creates the memories and asks the zygote to
  // fork; the listener hears of it. A spent spare is replaced a little later. Ordering the same
  // incarnation again, or an older one, changes nothing.
  virtual void spawn_worker(rank_id rank, incarnation_id incarnation) = 0;
  // SIGKILL, now or as soon as it is forked; worker_exited follows. `cause`, where there is one,
  // is put before how it died. False: no such incarnation was ordered here.
  virtual bool kill_worker(rank_id rank, incarnation_id incarnation, const std::string& cause) = 0;
  // The same for a rank's living incarnation, as a fault that ftrt causes on purpose now.
  // False: none lives.
  virtual bool injure(rank_id rank, const std::string& cause) = 0;
  // SIGSTOP for a rank's living incarnation, as a fault that ftrt causes on purpose now.
  virtual bool stop_worker(rank_id rank) = 0;
  // A worker, dead or alive, has killed or stopped itself because ftrt told it to.
  virtual void note_struck(rank_id rank, incarnation_id incarnation, bool killed) = 0;
  // SIGKILL for the zygote, as a fault that ftrt causes on purpose now. False: there is none.
  virtual bool kill_zygote() = 0;

  // The newest incarnation of a rank; nullptr: never started.
  [[nodiscard]] virtual std::shared_ptr<const worker_entry> worker(rank_id rank) const = 0;
  [[nodiscard]] virtual std::shared_ptr<const worker_entry> worker(
      rank_id rank, incarnation_id incarnation) const = 0;
  // The largest number ever ordered for a rank; 0: none.
  [[nodiscard]] virtual incarnation_id newest_incarnation(rank_id rank) const = 0;
  // Every incarnation that is still kept, dead ones whose snapshots may be needed included.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const worker_entry>> workers() const = 0;
  [[nodiscard]] virtual std::uint32_t alive() const = 0;
  // Who waits, warm; whom workers are forked from (-1: nobody now).
  [[nodiscard]] virtual std::vector<pid_t> warm_spares() const = 0;
  [[nodiscard]] virtual pid_t zygote_pid() const = 0;

  // The state that role load_snapshot is given.
  [[nodiscard]] virtual state_shelf& shelf() = 0;

  // The first control socket of a worker, once; then a fresh one over its lifeline.
  [[nodiscard]] virtual result<unique_fd> open_control_socket(rank_id rank,
                                                              incarnation_id incarnation) = 0;
  // Sends each rank its join, with a fresh sync block, everyone's buckets and the source's state or
  // the shelved one. An error names the rank that could not be reached; others may have been told.
  [[nodiscard]] virtual result<void> send_joins(const std::vector<protocol::join>& joins) = 0;
};

}  // namespace ftrt::host
