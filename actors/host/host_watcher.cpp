// The host table's own thread: what the kernel and the zygote say about processes.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/log.hpp>
#include <actors/host/process_signals.hpp>
#include <algorithm>
#include <cerrno>
#include <utility>

namespace ftrt::host {
namespace {

// Which descriptor of a worker; the serial stands above it, so every tag is above the table's own.
enum class watched : std::uint64_t { pidfd = 1, standard_error, lifeline };

std::uint64_t tag_of(const worker_entry& worker, watched which) {
  return std::uint64_t{worker.serial} << 2 | static_cast<std::uint64_t>(which);
}

}  // namespace

void host_table::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof one);
}

void host_table::watch_fd(int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void host_table::watch() {
  while (!stopped_) {
    epoll_event events[32];
    const int count = ::epoll_wait(epoll_.get(), events, 32, patience_ms());
    for (int i = 0; i < count; ++i) dispatch(events[i].data.u64);
    confirm_late_deaths();
    replace_silent_zygote();
    revive_zygote();
    kill_late_spares();
    tell_sources();
    order_due_spare();
    give_back_outlived();
    deliver_notices();
  }
}

void host_table::dispatch(std::uint64_t tag) {
  if (tag == wake_tag) {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto got = ::read(wake_fd_.get(), &ignored, sizeof ignored);
    return;
  }
  if (tag == zygote_tag) return on_zygote_packet();
  const auto worker = [&] {
    const std::lock_guard lock{mutex_};
    return find_serial(static_cast<std::uint32_t>(tag >> 2));
  }();
  if (!worker) return;
  switch (static_cast<watched>(tag & 3U)) {
    case watched::pidfd:
      return on_pidfd(worker);
    case watched::standard_error:
      return on_standard_error(worker);
    case watched::lifeline:
      return on_lifeline(worker);
  }
}

// How long the table may sleep; -1: until something happens.
int host_table::patience_ms() const {
  constexpr int look_for_cause_ms = 5;
  const std::lock_guard lock{mutex_};
  if (!late_deaths_.empty()) return look_for_cause_ms;
  const auto next = std::min({next_look_at_spares(), zygote_due_, outlived_due_});
  if (next == std::chrono::nanoseconds::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - monotonic_now());
  constexpr std::int64_t longest = 60 * 60 * 1000;
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, longest));
}

void host_table::handle(const protocol::worker_forked& forked, unique_fd pidfd) {
  const auto worker =
      forked.spare != 0 ? find_serial(forked.spare) : find(forked.rank, forked.incarnation);
  if (!worker || worker->pid != 0) return;
  worker->pidfd = std::move(pidfd);
  worker->pid = forked.pid;
  watch_fd(worker->pidfd.get(), tag_of(*worker, watched::pidfd));
  watch_fd(worker->standard_error.get(), tag_of(*worker, watched::standard_error));
  if (forked.spare != 0) {
    watch_fd(worker->lifeline.get(), tag_of(*worker, watched::lifeline));
  } else {
    notices_.push_back({notice::kind::started, forked.rank, forked.incarnation, {}});
  }
  if (ending_ || worker->doomed) kill_locked(worker, {});
}

void host_table::handle(const protocol::fork_failed& failed) {
  if (failed.spare != 0) {
    log().debug("a spare could not be forked: {}", failed.text);
    if (const auto spare = find_serial(failed.spare)) forget_spare(spare);
    return;
  }
  entries_.erase({failed.rank, failed.incarnation});
  notices_.push_back({notice::kind::start_failed, failed.rank, failed.incarnation, failed.text});
}

void host_table::handle(const protocol::worker_exited& exited) {
  const auto worker =
      exited.spare != 0 ? find_serial(exited.spare) : find(exited.rank, exited.incarnation);
  if (worker && worker->pid == exited.pid) {
    settle_death(worker, describe_wait_status(exited.wait_status));
  }
}

void host_table::on_standard_error(const entry_ptr& worker) {
  // A pipe's worth in all: whoever prints without end must not keep this thread from the others.
  constexpr int most_reads = 16;
  char text[4096];
  for (int reads = 0; reads < most_reads; ++reads) {
    const auto count = ::read(worker->standard_error.get(), text, sizeof text);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    if (count == 0) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker->standard_error.get(), nullptr);
      return;
    }
    const std::string_view written{text, static_cast<std::size_t>(count)};
    const std::lock_guard lock{mutex_};
    worker->errors.append(written);
    forward_output(*worker, written);
  }
}

// For its log file, which another thread writes: this one has deaths to notice. What a worker
// prints beyond the limit is only in its tail.
void host_table::forward_output(worker_entry& worker, std::string_view text) {
  constexpr std::size_t most_forwarded = 8u << 20;
  // What a spare says waits in its tail for a rank.
  if (listener_ == nullptr || worker.incarnation.value() == 0) return;
  if (worker.forwarded_bytes >= most_forwarded) return;
  worker.forwarded_bytes += text.size();
  std::string said{text};
  if (worker.forwarded_bytes >= most_forwarded) said += "\n[ftrt: the rest is not kept]\n";
  notices_.push_back({notice::kind::wrote, worker.rank, worker.incarnation, std::move(said)});
}

void host_table::deliver_notices() {
  const std::lock_guard delivering{delivery_};
  std::deque<notice> notices;
  host_listener* listener = nullptr;
  {
    const std::lock_guard lock{mutex_};
    listener = listener_;
    if (listener == nullptr) return;
    notices = std::exchange(notices_, {});
  }
  for (const auto& n : notices) {
    switch (n.what) {
      case notice::kind::started:
        listener->worker_started(n.rank, n.incarnation);
        break;
      case notice::kind::start_failed:
        listener->worker_start_failed(n.rank, n.incarnation, n.text);
        break;
      case notice::kind::wrote:
        listener->worker_wrote(n.rank, n.text);
        break;
      case notice::kind::exited:
        listener->worker_exited(n.rank, n.incarnation);
        break;
      case notice::kind::zygote_replaced:
        listener->zygote_replaced(n.text);
        break;
    }
  }
}

}  // namespace ftrt::host
