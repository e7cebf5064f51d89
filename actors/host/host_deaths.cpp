// How the host table comes to know that a worker is dead, and of what.

#include <sys/epoll.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/log.hpp>
#include <actors/host/process_signals.hpp>
#include <actors/host/process_state.hpp>
#include <algorithm>
#include <csignal>
#include <utility>

namespace ftrt::host {
namespace {

// A pidfd fires when a process dies; only the zygote, which reaps it, knows how. It tells at once,
// so this is how long a death may stay without its cause.
constexpr std::chrono::milliseconds wait_for_cause{250};

}  // namespace

void host_table::send_kill(const entry_ptr& worker, const std::string& cause) {
  worker->doomed = true;
  if (worker->kill_cause.empty()) worker->kill_cause = cause;
  if (worker->pidfd.valid()) send_signal(worker->pidfd.get(), SIGKILL);
}

void host_table::kill_locked(const entry_ptr& worker, const std::string& cause) {
  if (!worker->dead) send_kill(worker, cause);
}

void host_table::settle_death(const entry_ptr& worker, std::string cause) {
  if (worker->dead) return;
  worker->exit_cause =
      worker->kill_cause.empty() ? std::move(cause) : worker->kill_cause + ": " + std::move(cause);
  worker->dead = true;
  std::erase_if(late_deaths_, [&](const late_death& late) { return late.worker == worker; });
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker->pidfd.get(), nullptr);
  if (is_waiting(worker)) {
    log().debug("spare {}: {}", worker->serial, worker->exit_cause);
    forget_spare(worker);
  } else {
    notices_.push_back({notice::kind::exited, worker->rank, worker->incarnation, {}});
    postpone_spares();  // a recovery begins
  }
  changed_.notify_all();
}

void host_table::on_pidfd(const entry_ptr& worker) {
  on_standard_error(worker);
  const std::lock_guard lock{mutex_};
  if (worker->dead) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker->pidfd.get(), nullptr);
  // Also of one that we killed: it may have died of something else the moment before.
  if (const auto status = wait_status_of_unreaped(worker->pid, worker->pidfd.get())) {
    settle_death(worker, describe_wait_status(*status));
  } else if (zygote_ready_ && worker->zygote == zygotes_) {
    late_deaths_.push_back({worker, monotonic_now() + wait_for_cause});
  } else {
    settle_death(worker, "died (how is unknown: nobody was left to reap it)");
  }
}

void host_table::confirm_late_deaths() {
  const std::lock_guard lock{mutex_};
  const auto now = monotonic_now();
  const auto late = late_deaths_;
  for (const auto& death : late) {
    if (death.at <= now) settle_death(death.worker, "died (its exit status did not arrive)");
  }
}

}  // namespace ftrt::host
