#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <runtime/communicator/shm_communicator.hpp>
#include <runtime/worker/log.hpp>
#include <runtime/worker/membership.hpp>
#include <runtime/worker/memory_keeper.hpp>
#include <runtime/worker/process_setup.hpp>
#include <runtime/worker/rank_worker.hpp>
#include <runtime/worker/single_thread.hpp>
#include <runtime/worker/spare.hpp>
#include <runtime/worker/zygote.hpp>
#include <string>
#include <utility>

namespace ftrt::worker {
namespace {

// An uninterruptible child cannot be reaped; it is fenced, not waited for.
constexpr std::chrono::seconds patience_after_kill{5};
constexpr std::chrono::seconds send_patience{10};
constexpr std::size_t fork_descriptors = 7;

// Waits for events on `fds`; false: the deadline passed.
template <std::size_t N>
bool wait_for(std::array<pollfd, N>& fds, std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
  return ready != 0;
}

bool channel_survives(error_code code) {
  return code == error_code::busy || code == error_code::corrupt ||
         code == error_code::unsupported || code == error_code::refused;
}

diagnostic refusal(std::string key, std::string expected, std::string found) {
  diagnostic d;
  d.key = std::move(key);
  d.expected = std::move(expected);
  d.found = std::move(found);
  return d;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int run_worker(training_program& program, worker_setup setup, bool spare) {
  if (spare) {
    be_named_spare();
    setup.sources = std::make_unique<source_memories>(program.layout().arena_bytes);
    const auto identity =
        wait_as_spare(program, setup.lifeline.get(), setup.memory, *setup.sources);
    if (!identity) {
      say(identity.error().describe());
      return 1;
    }
    setup.rank = identity->rank;
    setup.incarnation = identity->incarnation;
  }
  be_named_after(setup.rank, setup.incarnation);
  return rank_worker{program, std::move(setup)}.run();
}

// Not where a device may go on writing into this process's memory: that its descriptors close only
// when the memory is gone, and with that its end, would be put off.
void keep_memory(const training_program& program, int lifeline) {
  if (program.values().cluster.device != device_kind::cpu) return;
  const auto linger = keeper_linger(program.layout().arena_bytes);
  if (auto keeper = start_memory_keeper(lifeline, linger); !keeper) {
    say(keeper.error().describe());
  }
}

// The child's whole life.
[[noreturn]] void live_as_worker(training_program& program, worker_setup setup, bool spare,
                                 unique_fd standard_error) {
  int code = 70;
  try {
    const auto became =
        become_worker(standard_error.get(), program.values().supervision.core_dumps);
    standard_error.reset();
    if (became) {
      keep_memory(program, setup.lifeline.get());
      code = run_worker(program, std::move(setup), spare);
    } else {
      say(became.error().describe());
    }
  } catch (...) {
    say("internal error: " + describe_current_exception());
  }
  std::fflush(nullptr);
  // What exit() would tear down belongs to the zygote.
  ::_exit(code);
}

}  // namespace

int zygote::run() {
  ignore_terminal_signals();
  set_log_name("zygote");
  if (auto watching = watch_children(); !watching) {
    say(watching.error().describe());
    return 1;
  }
  if (!configure()) return 0;
  serve();
  end_children();
  return 0;
}

result<void> zygote::watch_children() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return fail_errno("sigprocmask", errno);
  child_signals_ = unique_fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!child_signals_.valid()) return fail_errno("signalfd", errno);
  return {};
}

// ---- getting ready -----------------------------------------------------------------------------

// False: there is nothing to serve (refused, only checked, or control is gone).
bool zygote::configure() {
  while (true) {
    std::array fds{pollfd{channel_.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    auto packet = protocol::receive_packet(channel_.get());
    if (!packet) {
      if (!channel_survives(packet.error().code)) return false;
      if (packet.error().code != error_code::busy) say(packet.error().describe());
      continue;
    }
    const auto* request = std::get_if<protocol::zygote_configure>(&packet->body);
    if (request == nullptr) {
      say(std::string{protocol::name_of(packet->body)} + " refused: not configured yet");
      continue;
    }
    if (auto loaded = load(*request); !loaded) {
      send(protocol::zygote_refused{std::move(loaded.error())});
      return false;
    }
    send(ready());
    return !request->check_only && !control_is_gone_;
  }
}

checked<void> zygote::load(const protocol::zygote_configure& configure) try {
  auto parsed = parse_scenario(configure.scenario_toml, "scenario", "/");
  if (!parsed) return tl::unexpected(std::move(parsed.error()));
  values_ = parsed->values;
  use_one_thread();
  auto program = training_program::create(values_);
  if (!program) return tl::unexpected(std::move(program.error()));
  program_ = std::move(*program);
  if (!configure.check_only) program_->warm_up();
  if (const auto others = other_threads(); !others.empty()) {
    return tl::unexpected(std::vector{
        refusal("model", "model, data and plugins that start no thread before workers are forked",
                "threads named " + joined(others))});
  }
  return {};
} catch (...) {
  return tl::unexpected(std::vector{
      refusal("model", "a model and data that can be loaded", describe_current_exception())});
}

protocol::zygote_ready zygote::ready() const {
  protocol::zygote_ready message;
  message.layout = program_->layout();
  message.bucket_bytes = program_->bucket_bytes();
  message.sync_block_bytes = shm_sync_block_bytes(values_.cluster.ranks);
  message.train_samples = program_->train_samples();
  message.test_samples = program_->test_samples();
  message.iterations_per_epoch = program_->iterations_per_epoch();
  message.total_iterations = program_->total_iterations();
  message.digest_every = program_->digest_every();
  return message;
}

// ---- serving -----------------------------------------------------------------------------------

void zygote::serve() {
  while (!control_is_gone_) {
    std::array fds{pollfd{channel_.get(), POLLIN, 0}, pollfd{child_signals_.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) <= 0) continue;
    if (fds[1].revents != 0) on_children();
    if (fds[0].revents != 0) on_channel();
  }
}

void zygote::on_channel() {
  auto packet = protocol::receive_packet(channel_.get());
  if (!packet) {
    if (packet.error().code == error_code::busy) return;
    if (!channel_survives(packet.error().code)) {
      control_is_gone_ = true;
      return;
    }
    say("refused: " + packet.error().describe());
  } else if (const auto* request = std::get_if<protocol::fork_worker>(&packet->body)) {
    on_fork(*request, std::move(packet->descriptors));
  } else {
    say(std::string{protocol::name_of(packet->body)} + " refused: it does not belong here");
  }
}

void zygote::on_fork(const protocol::fork_worker& request, std::vector<unique_fd> descriptors) {
  const auto pid = fork_worker(request, std::move(descriptors));
  if (pid) return announce(request, *pid);
  const auto name = request.spare != 0 ? "a spare" : "rank " + std::to_string(request.rank.value());
  say("cannot fork " + name + ": " + pid.error().describe());
  send(protocol::fork_failed{request.rank, request.incarnation, pid.error().describe(),
                             request.spare});
}

result<int> zygote::fork_worker(const protocol::fork_worker& request,
                                std::vector<unique_fd> descriptors) {
  if (request.rank.value() >= values_.cluster.ranks) {
    return fail(error_code::invalid_argument, "rank " + std::to_string(request.rank.value()) +
                                                  " of a scenario with " +
                                                  std::to_string(values_.cluster.ranks) + " ranks");
  }
  if (descriptors.size() != fork_descriptors) {
    return fail(error_code::invalid_argument, "expected " + std::to_string(fork_descriptors) +
                                                  " descriptors, found " +
                                                  std::to_string(descriptors.size()));
  }
  // Mapped before the fork: a fault is an answer then, not a dead child.
  auto memory = map_worker_memory({std::move(descriptors[2]), std::move(descriptors[3]),
                                   std::move(descriptors[4]), std::move(descriptors[5])},
                                  *program_);
  if (!memory) return tl::unexpected(memory.error());
  std::fflush(nullptr);
  const auto pid = ::fork();
  if (pid < 0) return fail_errno("fork", errno);
  if (pid > 0) return pid;
  channel_.reset();
  child_signals_.reset();
  live_as_worker(*program_,
                 worker_setup{request.rank, request.incarnation, std::move(descriptors[0]),
                              std::move(descriptors[1]), std::move(*memory)},
                 request.spare != 0, std::move(descriptors[6]));
}

void zygote::announce(const protocol::fork_worker& request, int pid) {
  children_.add({pid, request.rank, request.incarnation, request.spare});
  // The pid cannot be another process's yet: only we reap it, and not before this.
  const unique_fd pidfd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  if (!pidfd.valid()) {
    const auto why = fail_errno("pidfd_open", errno).value();
    ::kill(pid, SIGKILL);
    return send(
        protocol::fork_failed{request.rank, request.incarnation, why.describe(), request.spare});
  }
  const std::array descriptors{pidfd.get()};
  send(protocol::worker_forked{request.rank, request.incarnation, pid, request.spare}, descriptors);
}

void zygote::on_children() {
  signalfd_siginfo ignored;
  while (::read(child_signals_.get(), &ignored, sizeof ignored) > 0) {
  }
  while (const auto gone = children_.next_ended()) {
    send(protocol::worker_exited{gone->rank, gone->incarnation, gone->pid, gone->wait_status,
                                 gone->spare});
    children_.reap(*gone);
  }
}

void zygote::send(const protocol::message& m, std::span<const int> descriptors) {
  if (control_is_gone_) return;
  const auto deadline = clock::now() + send_patience;
  while (true) {
    const auto sent = protocol::send_packet(channel_.get(), m, descriptors);
    if (sent) return;
    std::array fds{pollfd{channel_.get(), POLLOUT, 0}};
    if (sent.error().code == error_code::busy && wait_for(fds, deadline)) continue;
    control_is_gone_ = sent.error().code != error_code::invalid_argument;
    // That control has closed the channel is how a run ends, and no news.
    if (sent.error().code == error_code::peer_lost) return;
    say("cannot send " + std::string{protocol::name_of(m)} + ": " + sent.error().describe());
    return;
  }
}

// ---- the end -----------------------------------------------------------------------------------

void zygote::end_children() {
  channel_.reset();
  reap_until(clock::now() + values_.supervision.grace_period, [&] { return children_.empty(); });
  if (!children_.empty()) {
    say(std::to_string(children_.size()) +
        " workers did not leave within the grace period: SIGKILL");
    children_.kill_all();
    reap_until(clock::now() + patience_after_kill, [&] { return children_.empty(); });
  }
  // Nobody recovers any more. A stopped one would not leave with its lifeline.
  children_.kill_keepers();
  reap_until(clock::now() + patience_after_kill, [&] { return !children_.has_keepers(); });
}

void zygote::reap_until(clock::time_point deadline, const std::function<bool()>& done) {
  do {
    on_children();
    if (done()) return;
    std::array fds{pollfd{child_signals_.get(), POLLIN, 0}};
    if (!wait_for(fds, deadline)) return;
  } while (true);
}

}  // namespace ftrt::worker
