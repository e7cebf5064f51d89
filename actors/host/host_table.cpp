#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/process_signals.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ranges>
#include <schemas/protocol/channel.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <utility>

namespace ftrt::host {

tl::expected<std::unique_ptr<host_table>, start_error> host_table::start(host_config config) {
  const auto failed = [](error why) { return tl::unexpected(start_error{{}, std::move(why)}); };
  std::unique_ptr<host_table> table{new host_table{std::move(config)}};
  table->epoll_ = unique_fd{::epoll_create1(EPOLL_CLOEXEC)};
  table->wake_fd_ = unique_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!table->epoll_.valid() || !table->wake_fd_.valid()) {
    return failed(fail_errno("epoll", errno).value());
  }
  table->watch_fd(table->wake_fd_.get(), wake_tag);
  if (auto started = table->start_zygote(); !started) return failed(std::move(started.error()));
  table->thread_ = std::thread{[raw = table.get()] { raw->watch(); }};

  std::unique_lock lock{table->mutex_};
  const bool answered = table->changed_.wait_for(lock, table->config_.start_timeout, [&] {
    return table->zygote_ready_ || table->start_failure_.has_value();
  });
  if (!answered) {
    return failed(error{error_code::timeout,
                        "the worker program did not get ready by supervision.start_timeout", ""});
  }
  if (table->start_failure_) return tl::unexpected(*table->start_failure_);
  return table;
}

host_table::host_table(host_config config) : config_(std::move(config)) {}

host_table::~host_table() {
  end(std::chrono::milliseconds{0});
}

result<void> host_table::start_zygote() {
  auto started = zygote_process::spawn(config_.worker_program, config_.scenario_toml, false);
  if (!started) return tl::unexpected(started.error());
  zygote_ = std::move(*started);
  ++zygotes_;
  watch_fd(zygote_.channel(), zygote_tag);
  return {};
}

void host_table::set_listener(host_listener* listener) {
  {
    const std::scoped_lock lock{delivery_, mutex_};
    listener_ = listener;
  }
  wake();
}

// ---- workers ------------------------------------------------------------------------------------

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
  } else if (start_failure_) {
    notices_.push_back({notice::kind::start_failed, rank, incarnation,
                        "there is no zygote to fork from, and it cannot be restarted"});
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

// An older incarnation's memories go as soon as nobody needs them any more. Its snapshots are
// needed as long as no successor has written any, however often successors die before they train.
void host_table::forget_the_dead(rank_id rank, incarnation_id newest) {
  std::vector<key> known;
  for (const auto& [id, worker] : entries_) {
    if (id.first == rank) known.push_back(id);
  }
  bool newer_snapshots = false;
  for (const key& id : known | std::views::reverse) {
    const auto& worker = *entries_[id];
    const bool has_any =
        !storage::list_ready(worker.snapshots, program_.layout.arena_bytes).empty();
    const bool old = worker.dead && id.second.value() + 2 <= newest.value();
    if (old && (newer_snapshots || !has_any)) entries_.erase(id);
    newer_snapshots = newer_snapshots || has_any;
  }
}

void host_table::kill_locked(const entry_ptr& worker, const std::string& cause) {
  if (worker->dead) return;
  worker->doomed = true;
  if (worker->kill_cause.empty()) worker->kill_cause = cause;
  if (worker->pidfd.valid()) send_signal(worker->pidfd.get(), SIGKILL);
}

bool host_table::kill_worker(rank_id rank, incarnation_id incarnation, const std::string& cause) {
  const std::lock_guard lock{mutex_};
  if (const auto worker = find(rank, incarnation)) {
    kill_locked(worker, cause);
    return true;
  }
  const auto waiting = std::ranges::find_if(waiting_forks_, [&](const fork_request& request) {
    return request.rank == rank && request.incarnation == incarnation;
  });
  if (waiting == waiting_forks_.end()) return false;
  waiting_forks_.erase(waiting);
  notices_.push_back({notice::kind::exited, rank, incarnation, {}});
  wake();
  return true;
}

bool host_table::injure(rank_id rank, const std::string& cause) {
  const std::lock_guard lock{mutex_};
  const auto worker = find_living(rank);
  if (!worker) return false;
  worker->fault_ns = monotonic_now().count();
  kill_locked(worker, cause);
  return true;
}

bool host_table::stop_worker(rank_id rank) {
  const std::lock_guard lock{mutex_};
  const auto worker = find_living(rank);
  if (!worker) return false;
  worker->fault_ns = monotonic_now().count();
  send_signal(worker->pidfd.get(), SIGSTOP);
  return true;
}

host_table::entry_ptr host_table::find_living(rank_id rank) const {
  const auto newest = newest_.find(rank);
  const auto worker = newest == newest_.end() ? nullptr : find(rank, newest->second);
  return worker && !worker->dead && worker->pidfd.valid() ? worker : nullptr;
}

host_table::entry_ptr host_table::find(rank_id rank, incarnation_id incarnation) const {
  const auto found = entries_.find({rank, incarnation});
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<const worker_entry> host_table::worker(rank_id rank) const {
  const std::lock_guard lock{mutex_};
  const auto newest = newest_.find(rank);
  return newest == newest_.end() ? nullptr : find(rank, newest->second);
}

std::shared_ptr<const worker_entry> host_table::worker(rank_id rank,
                                                       incarnation_id incarnation) const {
  const std::lock_guard lock{mutex_};
  return find(rank, incarnation);
}

incarnation_id host_table::newest_incarnation(rank_id rank) const {
  const std::lock_guard lock{mutex_};
  const auto newest = ordered_.find(rank);
  return newest == ordered_.end() ? incarnation_id{} : newest->second;
}

std::vector<std::shared_ptr<const worker_entry>> host_table::workers() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::shared_ptr<const worker_entry>> all;
  for (const auto& item : entries_) all.push_back(item.second);
  return all;
}

std::uint32_t host_table::alive() const {
  const std::lock_guard lock{mutex_};
  return static_cast<std::uint32_t>(std::ranges::count_if(
      entries_, [](const auto& item) { return item.second->pid > 0 && !item.second->dead; }));
}

result<unique_fd> host_table::open_control_socket(rank_id rank, incarnation_id incarnation) {
  const std::lock_guard lock{mutex_};
  const auto worker = find(rank, incarnation);
  const auto name = "worker of rank " + std::to_string(rank.value()) + ", incarnation " +
                    std::to_string(incarnation.value());
  if (!worker || worker->dead) return fail(error_code::not_found, name + " is gone");
  if (worker->control.valid()) return std::move(worker->control);
  auto ends = protocol::socket_pair(SOCK_STREAM);
  if (!ends) return tl::unexpected(ends.error());
  const int theirs = ends->second.get();
  if (auto sent = protocol::send_packet(worker->lifeline.get(), protocol::attach_control{},
                                        std::span{&theirs, 1});
      !sent) {
    return tl::unexpected(std::move(sent.error()).with_context(name));
  }
  return std::move(ends->first);
}

result<void> host_table::send_joins(const std::vector<protocol::join>& joins) {
  auto sync_block = storage::shared_memory::create("ftrt-sync", program_.sync_block_bytes);
  if (!sync_block) return tl::unexpected(sync_block.error());
  const auto shelved = shelf_.get();
  const std::lock_guard lock{mutex_};
  std::vector<entry_ptr> members(joins.size());
  for (std::size_t rank = 0; rank < joins.size(); ++rank) {
    const rank_id id{static_cast<std::uint32_t>(rank)};
    const auto newest = newest_.find(id);
    if (newest != newest_.end()) members[rank] = find(id, newest->second);
    if (!members[rank] || members[rank]->dead) {
      return fail(error_code::not_found, "rank " + std::to_string(rank) + " has no living worker");
    }
  }
  for (const auto& join : joins) {
    FTRT_ASSERT(join.rank.value() < members.size() && join.source.value() < members.size());
    std::vector<int> descriptors{sync_block->fd().get()};
    for (const auto& member : members) descriptors.push_back(member->bucket.fd().get());
    if (join.role == protocol::state_role::receive) {
      descriptors.push_back(members[join.source.value()]->state.fd().get());
    }
    if (join.role == protocol::state_role::load_snapshot) {
      if (!shelved || shelved->iteration != join.iteration)
        return fail(error_code::not_found, "the snapshot to load is gone");
      descriptors.push_back(shelved->memory.fd().get());
    }
    if (auto sent =
            protocol::send_packet(members[join.rank.value()]->lifeline.get(), join, descriptors);
        !sent) {
      return tl::unexpected(std::move(sent.error())
                                .with_context("join of rank " + std::to_string(join.rank.value())));
    }
  }
  return {};
}

void host_table::end(std::chrono::milliseconds patience) {
  std::vector<entry_ptr> workers;
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
    for (const auto& item : entries_) workers.push_back(item.second);
    // Nobody waits for a spare; one that is just being forked finds its lifeline ended.
    for (const auto& spare : spares_) {
      workers.push_back(spare);
      kill_locked(spare, {});
      spare->lifeline.reset();
    }
  }
  {
    std::unique_lock lock{mutex_};
    const auto all_dead = [&] {
      return std::ranges::all_of(workers, [](const auto& w) { return w->dead || w->pid == 0; });
    };
    changed_.wait_for(lock, patience, all_dead);
    for (const auto& worker : workers) kill_locked(worker, {});
    changed_.wait_for(lock, std::chrono::seconds{2}, all_dead);
  }
  if (thread_.joinable()) {
    stopped_ = true;
    wake();
    thread_.join();
  }
  // Every child is dead or doomed, or just being forked: that one leaves with its lifeline, and the
  // zygote has nothing left to wait for.
  {
    const std::lock_guard lock{mutex_};
    for (const auto& item : entries_) item.second->lifeline.reset();
  }
  zygote_.end(std::chrono::duration_cast<std::chrono::milliseconds>(config_.grace_period) +
              std::chrono::seconds{1});
}

}  // namespace ftrt::host
