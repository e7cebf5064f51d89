// The host table's own thread: what the kernel and the zygote say about processes.

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/log.hpp>
#include <actors/host/process_signals.hpp>
#include <actors/host/process_state.hpp>
#include <algorithm>
#include <cerrno>
#include <schemas/protocol/channel.hpp>
#include <utility>

namespace ftrt::host {
namespace {

// A pidfd fires when a process dies; only the zygote, which reaps it, knows how. It tells at once,
// so this is how long a death may stay without its cause.
constexpr std::chrono::milliseconds wait_for_cause{250};
// Zygotes in a row that may die within a short life.
constexpr std::chrono::seconds zygote_good_for{10};
constexpr std::uint32_t max_zygote_losses = 3;

// Which descriptor of a worker; the serial stands above it, so every tag is above the table's own.
enum class watched : std::uint64_t { pidfd = 1, standard_error, lifeline };

std::uint64_t tag_of(const worker_entry& worker, watched which) {
  return std::uint64_t{worker.serial} << 2 | static_cast<std::uint64_t>(which);
}

bool is_readable(int fd) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
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
    kill_late_spares();
    order_due_spare();
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
  const auto next = next_look_at_spares();
  if (next == std::chrono::nanoseconds::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - monotonic_now());
  constexpr std::int64_t longest = 60 * 60 * 1000;
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, longest));
}

void host_table::on_zygote_packet() {
  auto packet = protocol::receive_packet(zygote_.channel());
  if (!packet) {
    if (packet.error().code != error_code::busy) on_zygote_lost(packet.error());
    return;
  }
  const std::lock_guard lock{mutex_};
  std::visit(
      [&](auto& message) {
        using type = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<type, protocol::worker_forked>) {
          if (packet->descriptors.size() == 1) {
            handle(message, std::move(packet->descriptors.front()));
          }
        } else if constexpr (std::is_same_v<type, protocol::zygote_ready> ||
                             std::is_same_v<type, protocol::zygote_refused> ||
                             std::is_same_v<type, protocol::fork_failed> ||
                             std::is_same_v<type, protocol::worker_exited>) {
          handle(message);
        }
      },
      packet->body);
}

void host_table::handle(const protocol::zygote_ready& ready) {
  // A later zygote has loaded the same scenario: what it says must be what the workers run on.
  if (!program_known_) program_ = ready;
  program_known_ = true;
  zygote_ready_ = true;
  for (const auto& request : std::exchange(waiting_forks_, {})) fork_now(request);
  postpone_spares();
  changed_.notify_all();
}

void host_table::handle(const protocol::zygote_refused& refused) {
  std::string text = "the worker program refuses the scenario that it accepted before";
  if (!refused.diagnostics.empty()) text += ": " + refused.diagnostics.front().describe();
  give_up_forking(start_error{refused.diagnostics, std::nullopt}, text);
}

// There will be no zygote any more: who waits for one is told, and so is who asks later.
void host_table::give_up_forking(start_error why, const std::string& text) {
  start_failure_ = std::move(why);
  for (const auto& request : std::exchange(waiting_forks_, {})) {
    notices_.push_back({notice::kind::start_failed, request.rank, request.incarnation, text});
  }
  changed_.notify_all();
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

void host_table::on_zygote_lost(const error& why) {
  const std::lock_guard lock{mutex_};
  zygote_ready_ = false;
  const auto now = monotonic_now();
  if (now - last_zygote_loss_ > zygote_good_for) zygote_losses_ = 0;
  last_zygote_loss_ = now;
  ++zygote_losses_;
  zygote_.end(std::chrono::milliseconds{0});
  if (ending_ || start_failure_) return;  // it said why, or was told to
  if (!program_known_ || zygote_losses_ > max_zygote_losses) {
    const error failure{error_code::internal,
                        "the worker program ended before it was ready; its output above tells why",
                        why.describe()};
    return give_up_forking(start_error{{}, failure}, "the zygote cannot be restarted");
  }
  // Dead workers whose status the old zygote did not tell.
  for (const auto& item : entries_) {
    const auto& worker = item.second;
    if (worker->pid > 0 && !worker->dead && is_readable(worker->pidfd.get())) {
      settle_death(worker, "died (how is unknown: nobody was left to reap it)");
    } else if (worker->pid == 0 && !worker->dead) {
      waiting_forks_.push_back({worker->rank, worker->incarnation});
    }
  }
  std::erase_if(spares_, [](const entry_ptr& spare) { return spare->pid == 0; });
  auto restarted = start_zygote();
  if (!restarted) {
    give_up_forking(start_error{{}, restarted.error()}, restarted.error().describe());
  }
  notices_.push_back(
      {notice::kind::zygote_replaced,
       {},
       {},
       restarted ? "the zygote died and was replaced"
                 : "the zygote died and could not be replaced: " + restarted.error().describe()});
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
