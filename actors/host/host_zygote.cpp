// The zygote as the host table holds it: started, heard, watched and replaced.

#include <poll.h>

#include <actors/host/clock.hpp>
#include <actors/host/host_table.hpp>
#include <actors/host/process_state.hpp>
#include <algorithm>
#include <schemas/protocol/channel.hpp>
#include <utility>

namespace ftrt::host {
namespace {

// Zygotes in a row that may be lost within a short life.
constexpr std::chrono::seconds zygote_good_for{10};
constexpr std::uint32_t max_zygote_losses = 3;
// A fork takes milliseconds, of a process of gigabytes tenths of a second, and of many that are
// ordered at once each is answered alone. Who says nothing for so long does not only wait for a
// core; and a new zygote costs about as much.
constexpr std::chrono::seconds zygote_patience{3};
// A deadline that is found passed by more than this says that this process stood still itself.
constexpr std::chrono::seconds own_delay{1};
constexpr auto never = std::chrono::nanoseconds::max();

bool is_readable(int fd) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

}  // namespace

result<void> host_table::start_zygote() {
  auto started = zygote_process::spawn(config_.worker_program, config_.scenario_toml, false);
  if (!started) return tl::unexpected(started.error());
  zygote_ = std::move(*started);
  ++zygotes_;
  zygote_due_ = monotonic_now() + config_.start_timeout;
  watch_fd(zygote_.channel(), zygote_tag);
  return {};
}

void host_table::on_zygote_packet() {
  auto packet = protocol::receive_packet(zygote_.channel());
  if (!packet) {
    if (packet.error().code != error_code::busy) on_zygote_lost(packet.error());
    return;
  }
  const std::lock_guard lock{mutex_};
  zygote_due_ = never;
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
  if (owes_a_fork()) expect_answer();
}

// An answer to an order that was just given, or to the next one.
void host_table::expect_answer() {
  const auto now = monotonic_now();
  zygote_due_ = is_stopped(zygote_.pid()) ? now : std::min(zygote_due_, now + zygote_patience);
}

bool host_table::owes_a_fork() const {
  const auto is_awaited = [](const entry_ptr& worker) { return worker->pid == 0 && !worker->dead; };
  return std::ranges::any_of(spares_, is_awaited) ||
         std::ranges::any_of(entries_, [&](const auto& item) { return is_awaited(item.second); });
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

// Who waits for a zygote is told; who asks later has another one tried.
void host_table::give_up_forking(start_error why, const std::string& text) {
  start_failure_ = std::move(why);
  for (const auto& request : std::exchange(waiting_forks_, {})) {
    notices_.push_back({notice::kind::start_failed, request.rank, request.incarnation, text});
  }
  changed_.notify_all();
}

void host_table::on_zygote_lost(const error& why) {
  const std::lock_guard lock{mutex_};
  replace_zygote("died", why);
}

// It stands still, or hangs: who waits for a fork has waited long enough.
void host_table::replace_silent_zygote() {
  const std::lock_guard lock{mutex_};
  const auto now = monotonic_now();
  if (now < zygote_due_ || ending_ || !program_known_) return;  // at first start() has the deadline
  if (now > zygote_due_ + own_delay) {  // it may have had no more time than we
    zygote_due_ = now + zygote_patience;
    return;
  }
  const std::string what = is_stopped(zygote_.pid()) ? "was stopped" : "did not answer in time";
  replace_zygote(what + " and was killed", error{error_code::timeout, "the zygote " + what, ""});
}

// What it forked lives on; what it was to fork is left to the next one.
void host_table::replace_zygote(const std::string& what, const error& why) {
  zygote_ready_ = false;
  zygote_due_ = never;
  const auto now = monotonic_now();
  if (now - last_zygote_loss_ > zygote_good_for) zygote_losses_ = 0;
  last_zygote_loss_ = now;
  ++zygote_losses_;
  zygote_.end(std::chrono::milliseconds{0});
  if (ending_ || start_failure_) return;  // it said why, or was told to
  take_back_orders();
  if (!program_known_ || zygote_losses_ > max_zygote_losses) {
    const error failure{error_code::internal,
                        "the worker program ended before it was ready; its output above tells why",
                        why.describe()};
    return give_up_forking(start_error{{}, failure},
                           "no zygote is started any more: the last one " + what);
  }
  auto restarted = start_zygote();
  if (!restarted) {
    give_up_forking(start_error{{}, restarted.error()}, restarted.error().describe());
  }
  notices_.push_back(
      {notice::kind::zygote_replaced,
       {},
       {},
       "the zygote " + what +
           (restarted ? "; it was replaced"
                      : "; it could not be replaced: " + restarted.error().describe())});
}

// Whoever has no process yet waits for the next zygote. The dead, whose status this one did not
// tell, are settled.
void host_table::take_back_orders() {
  std::erase_if(spares_, [](const entry_ptr& spare) { return spare->pid == 0; });
  const auto all = entries_;
  for (const auto& [id, worker] : all) {
    if (worker->dead) continue;
    if (worker->pid > 0) {
      if (is_readable(worker->pidfd.get()))
        settle_death(worker, "died (how is unknown: nobody was left to reap it)");
    } else if (worker->doomed) {
      settle_death(worker, "was never forked");
    } else {
      waiting_forks_.push_back({worker->rank, worker->incarnation});
      entries_.erase(id);
    }
  }
}

// Whatever kept the last ones from starting may have passed: a full machine, a program that was
// being replaced.
void host_table::revive_zygote() {
  const std::lock_guard lock{mutex_};
  if (ending_ || waiting_forks_.empty() || !start_failure_ || !program_known_) return;
  start_failure_.reset();
  if (auto started = start_zygote(); !started) {
    give_up_forking(start_error{{}, started.error()},
                    "there is no zygote to fork from: " + started.error().describe());
  }
}

}  // namespace ftrt::host
