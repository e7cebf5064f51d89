// The host table's orders to the zygote: memories, sockets and a fork for each new worker.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <cerrno>
#include <ranges>
#include <schemas/protocol/channel.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <utility>

namespace ftrt::host {

void host_table::spawn_worker(rank_id rank, incarnation_id incarnation) {
  const std::lock_guard lock{mutex_};
  if (ending_) return;
  auto& newest = ordered_[rank];
  if (incarnation <= newest) return;  // ordered before, by the supervisor before this one
  newest = incarnation;
  const fork_request request{rank, incarnation};
  if (hand_out_spare(request)) {
    // It had been ready for this.
  } else if (zygote_ready_) {
    fork_now(request);
  } else {
    waiting_forks_.push_back(request);
  }
  postpone_spares();
  wake();
}

result<host_table::entry_ptr> host_table::make_entry(const fork_request& request,
                                                     std::vector<unique_fd>& for_worker) {
  auto entry = std::make_shared<worker_entry>();
  entry->serial = ++last_serial_;
  entry->spare = request.spare;
  entry->zygote = zygotes_;
  entry->rank = request.rank;
  entry->incarnation = request.incarnation;
  auto control = protocol::socket_pair(SOCK_STREAM);
  if (!control) return tl::unexpected(control.error());
  auto lifeline = protocol::socket_pair(SOCK_SEQPACKET);
  if (!lifeline) return tl::unexpected(lifeline.error());
  entry->control = std::move(control->first);
  entry->lifeline = std::move(lifeline->first);
  for_worker.push_back(std::move(control->second));
  for_worker.push_back(std::move(lifeline->second));

  const struct {
    const char* name;
    std::size_t bytes;
    storage::shared_memory& memory;
  } memories[] = {
      {"ftrt-progress", storage::progress_memory_bytes(), entry->progress},
      {"ftrt-snapshots", storage::snapshot_memory_bytes(program_.layout.arena_bytes),
       entry->snapshots},
      {"ftrt-bucket", program_.bucket_bytes, entry->bucket},
      {"ftrt-state", program_.layout.arena_bytes, entry->state},
  };
  for (const auto& [name, bytes, memory] : memories) {
    auto created = storage::shared_memory::create(name, bytes);
    if (!created) return tl::unexpected(created.error());
    auto theirs = created->fd().duplicate();
    if (!theirs) return tl::unexpected(theirs.error());
    memory = std::move(*created);
    for_worker.push_back(std::move(*theirs));
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe", errno);
  entry->standard_error = unique_fd{ends[0]};
  unique_fd write_end{ends[1]};
  // Only our end is non-blocking: a worker may wait for its own output.
  ::fcntl(write_end.get(), F_SETFL, 0);
  for_worker.push_back(std::move(write_end));
  return entry;
}

result<host_table::entry_ptr> host_table::order_fork(const fork_request& request) {
  std::vector<unique_fd> for_worker;
  auto entry = make_entry(request, for_worker);
  if (!entry) return entry;
  std::vector<int> descriptors;
  for (const auto& fd : for_worker) descriptors.push_back(fd.get());
  const protocol::fork_worker order{request.rank, request.incarnation,
                                    request.spare ? (*entry)->serial : 0};
  if (auto sent = protocol::send_packet(zygote_.channel(), order, descriptors); !sent) {
    return tl::unexpected(sent.error());
  }
  expect_answer();
  std::erase_if(by_serial_, [](const auto& item) { return item.second.expired(); });
  by_serial_[(*entry)->serial] = *entry;
  return entry;
}

void host_table::fork_now(const fork_request& request) {
  const auto entry = order_fork(request);
  if (entry) return enlist(*entry);
  notices_.push_back(
      {notice::kind::start_failed, request.rank, request.incarnation, entry.error().describe()});
}

void host_table::enlist(const entry_ptr& worker) {
  entries_[{worker->rank, worker->incarnation}] = worker;
  newest_[worker->rank] = worker->incarnation;
  forget_the_dead(worker->rank, worker->incarnation);
}

// The kernel takes 8 ms to take back the memories of a model of a million parameters, and neither
// an actor nor the thread that sees deaths has them to spare, nor has a rank that was just started
// a core. The lifeline stays open meanwhile: with its end the worker's keeper would let go of a
// memory as well.
void host_table::outlive(entry_ptr worker) {
  constexpr std::chrono::milliseconds after_the_recovery{200};
  if (outlived_.empty()) outlived_due_ = monotonic_now() + after_the_recovery;
  outlived_.push_back(std::move(worker));
}

void host_table::give_back_outlived() {
  const std::lock_guard lock{mutex_};
  if (monotonic_now() < outlived_due_) return;
  outlived_due_ = std::chrono::nanoseconds::max();
  // Whoever still reads a memory of theirs has no use for it.
  for (const auto& worker : outlived_) worker->lifeline.reset();
  chores_.post("memories of the dead",
               [outlived = std::exchange(outlived_, {})]() mutable { outlived.clear(); });
}

// An older incarnation's memories go as soon as nobody needs them any more. Its snapshots are
// needed until its successors have written two, however often they die: by the newer one all ranks
// had written the older, while the newest may be whole in nobody's memory but this rank's.
void host_table::forget_the_dead(rank_id rank, incarnation_id newest) {
  std::vector<key> known;
  for (const auto& [id, worker] : entries_) {
    if (id.first == rank) known.push_back(id);
  }
  std::size_t newer_snapshots = 0;
  for (const key& id : known | std::views::reverse) {
    const auto worker = entries_[id];
    const auto snapshots =
        storage::list_whole(worker->snapshots, program_.layout.arena_bytes).size();
    const bool old = worker->dead && id.second.value() + 2 <= newest.value();
    if (old && (newer_snapshots >= 2 || snapshots == 0)) {
      entries_.erase(id);
      outlive(worker);
    }
    newer_snapshots += snapshots;
  }
}

}  // namespace ftrt::host
