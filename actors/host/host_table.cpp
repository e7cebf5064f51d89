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
#include <schemas/protocol/channel.hpp>
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

void host_table::set_listener(host_listener* listener) {
  {
    const std::scoped_lock lock{delivery_, mutex_};
    listener_ = listener;
  }
  wake();
}

// ---- workers ------------------------------------------------------------------------------------

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
  worker->injected = true;
  worker->fault_ns = monotonic_now().count();
  // Found out as any other death is: who tests recovery wants to see that.
  send_kill(worker, cause);
  return true;
}

bool host_table::stop_worker(rank_id rank) {
  const std::lock_guard lock{mutex_};
  const auto worker = find_living(rank);
  if (!worker) return false;
  worker->injected = true;
  worker->fault_ns = monotonic_now().count();
  send_signal(worker->pidfd.get(), SIGSTOP);
  return true;
}

void host_table::note_struck(rank_id rank, incarnation_id incarnation, bool killed) {
  const std::lock_guard lock{mutex_};
  const auto worker = find(rank, incarnation);
  if (!worker) return;
  if (killed) worker->struck = true;
  worker->injected = true;
}

bool host_table::kill_zygote() {
  const std::lock_guard lock{mutex_};
  return zygote_.pid() > 0 && ::kill(zygote_.pid(), SIGKILL) == 0;
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
  if (!worker || !is_reachable(*worker)) return fail(error_code::not_found, name + " is gone");
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
  const auto shelved = joins.empty() ? nullptr : shelf_.of(joins.front().iteration);
  const std::lock_guard lock{mutex_};
  std::vector<entry_ptr> members(joins.size());
  for (std::size_t rank = 0; rank < joins.size(); ++rank) {
    const rank_id id{static_cast<std::uint32_t>(rank)};
    const auto newest = newest_.find(id);
    if (newest != newest_.end()) members[rank] = find(id, newest->second);
    if (!members[rank] || !is_reachable(*members[rank])) {
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
      if (!shelved || shelved->iteration != join.iteration)  // all join at the same one
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
    for (const auto& item : by_serial_) {
      if (const auto worker = item.second.lock()) worker->lifeline.reset();
    }
  }
  zygote_.end(std::chrono::duration_cast<std::chrono::milliseconds>(config_.grace_period) +
              std::chrono::seconds{1});
}

}  // namespace ftrt::host
