// The host table's spares: workers that wait, warm, for a rank to be lost.

#include <sys/epoll.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/log.hpp>
#include <actors/host/process_state.hpp>
#include <algorithm>
#include <schemas/protocol/channel.hpp>

namespace ftrt::host {
namespace {

// After a rank was started nothing may compete with it for a core: neither the fork of the next
// spare nor its warm-up.
constexpr std::chrono::milliseconds spare_delay{200};
// One that dies before it is warm will most likely do so again: the delay doubles, so often.
constexpr std::uint32_t most_doublings = 8;
// How late the table may look at a spare whose time is over, and still judge it.
constexpr std::chrono::seconds longest_delay{1};

}  // namespace

host_table::entry_ptr host_table::find_serial(std::uint32_t serial) const {
  const auto found = by_serial_.find(serial);
  return found == by_serial_.end() ? nullptr : found->second.lock();
}

bool host_table::is_waiting(const entry_ptr& spare) const {
  return std::ranges::find(spares_, spare) != spares_.end();
}

std::vector<pid_t> host_table::warm_spares() const {
  const std::lock_guard lock{mutex_};
  std::vector<pid_t> pids;
  for (const auto& spare : spares_) {
    if (spare->warm && !spare->doomed) pids.push_back(spare->pid);
  }
  return pids;
}

pid_t host_table::zygote_pid() const {
  const std::lock_guard lock{mutex_};
  return zygote_.pid();
}

void host_table::postpone_spares() {
  sources_due_ = monotonic_now() + spare_delay;
  spare_due_ = monotonic_now() + spare_delay * (1U << std::min(cold_spares_lost_, most_doublings));
}

void host_table::kill_late_spares() {
  const std::lock_guard lock{mutex_};
  const auto now = monotonic_now();
  for (const auto& spare : spares_) {
    if (spare->warm || spare->doomed || now < spare->warm_by) continue;
    // The table looks when that time comes. So much later, the clock has jumped or the machine
    // slept, and the spare has not had its time.
    if (now > spare->warm_by + longest_delay) {
      spare->warm_by = now + config_.start_timeout;
      continue;
    }
    kill_locked(spare, "a spare that was not ready by supervision.start_timeout");
  }
}

// When the table must look at its spares again; the largest time: not by itself.
std::chrono::nanoseconds host_table::next_look_at_spares() const {
  auto next = std::chrono::nanoseconds::max();
  if (ending_) return next;
  const auto sources = likely_sources();
  const bool any_must_hear = std::ranges::any_of(
      spares_, [&](const entry_ptr& spare) { return must_hear(*spare, sources); });
  if (any_must_hear) next = sources_due_;
  if (zygote_ready_ && spares_.size() < config_.spares) next = std::min(next, spare_due_);
  for (const auto& spare : spares_) {
    if (!spare->warm && !spare->doomed) next = std::min(next, spare->warm_by);
  }
  return next;
}

// Those that the recovery would most likely have a new rank copy from: the lowest that live. Of two
// ranks one survives a single death. Each costs a spare two MB of page tables for a GB.
std::vector<host_table::entry_ptr> host_table::likely_sources() const {
  std::vector<entry_ptr> sources;
  for (const auto& [rank, incarnation] : newest_) {
    if (sources.size() == protocol::max_sources) break;
    if (auto worker = find_living(rank)) sources.push_back(std::move(worker));
  }
  return sources;
}

bool host_table::must_hear(const worker_entry& spare, const std::vector<entry_ptr>& sources) const {
  return spare.warm && !spare.doomed && !sources.empty() &&
         !std::ranges::equal(spare.sources, sources, {}, {}, &worker_entry::serial);
}

// So that it has mapped their memories before it is needed. Not while a recovery is under way,
// whose time this would take.
void host_table::tell_sources() {
  const std::lock_guard lock{mutex_};
  if (ending_ || monotonic_now() < sources_due_) return;
  const auto sources = likely_sources();
  std::vector<int> descriptors;
  std::vector<std::uint32_t> serials;
  for (const auto& source : sources) {
    descriptors.push_back(source->state.fd().get());
    serials.push_back(source->serial);
  }
  const protocol::expect_sources request{static_cast<std::uint32_t>(sources.size())};
  for (const auto& spare : spares_) {
    if (!must_hear(*spare, sources)) continue;
    // Where it cannot be told, it copies more slowly. It is not told twice.
    spare->sources = serials;
    if (auto sent = protocol::send_packet(spare->lifeline.get(), request, descriptors); !sent) {
      log().debug("spare {}: {}", spare->serial, sent.error().describe());
    }
  }
}

void host_table::order_due_spare() {
  const std::lock_guard lock{mutex_};
  if (ending_ || !zygote_ready_ || spares_.size() >= config_.spares) return;
  if (monotonic_now() < spare_due_) return;
  if (auto ordered = order_fork({{}, {}, true})) {
    (*ordered)->warm_by = monotonic_now() + config_.start_timeout;
    spares_.push_back(std::move(*ordered));
  } else {
    log().debug("no spare: {}", ordered.error().describe());
  }
  postpone_spares();
}

// The only word of a spare that has no rank. Anything else, or its end, is left to its pidfd.
void host_table::on_lifeline(const entry_ptr& worker) {
  const std::lock_guard lock{mutex_};
  if (!worker->lifeline.valid()) return;
  const auto packet = protocol::receive_packet(worker->lifeline.get());
  if (!packet && packet.error().code == error_code::busy) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker->lifeline.get(), nullptr);
  if (!is_waiting(worker)) return;
  if (packet && std::holds_alternative<protocol::spare_ready>(packet->body)) {
    worker->warm = true;
    cold_spares_lost_ = 0;
    changed_.notify_all();
  } else {
    kill_locked(worker, "a spare that did not say that it is ready");
  }
}

bool host_table::hand_out_spare(const fork_request& request) {
  while (true) {
    // One that has died by itself is left to its pidfd.
    const auto found = std::ranges::find_if(spares_, [](const entry_ptr& spare) {
      return spare->warm && !spare->doomed && is_reachable(*spare);
    });
    if (found == spares_.end()) return false;
    const auto spare = *found;
    // It would take its rank and never answer.
    if (is_stopped(spare->pid)) {
      kill_locked(spare, "a spare that was stopped");
      continue;
    }
    if (protocol::send_packet(spare->lifeline.get(),
                              protocol::assign{request.rank, request.incarnation})) {
      spares_.erase(found);
      spare->rank = request.rank;
      spare->incarnation = request.incarnation;
      enlist(spare);
      if (auto said = spare->errors.text(); !said.empty()) {
        notices_.push_back(
            {notice::kind::wrote, request.rank, request.incarnation, std::move(said)});
      }
      notices_.push_back({notice::kind::started, request.rank, request.incarnation, {}});
      return true;
    }
    kill_locked(spare, "a spare that cannot be reached");  // it is dying, most likely
  }
}

// It is dead, or never was.
void host_table::forget_spare(const entry_ptr& spare) {
  outlive(spare);
  std::erase(spares_, spare);
  if (!spare->warm) ++cold_spares_lost_;
  postpone_spares();
}

}  // namespace ftrt::host
