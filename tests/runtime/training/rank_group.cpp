#include "rank_group.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <runtime/communicator/shm_communicator.hpp>
#include <schemas/random.hpp>
#include <storage/checkpoint.hpp>

#include "rank_group_messages.hpp"

namespace ftrt::testing {
namespace {

using namespace std::chrono_literals;
using protocol::state_role;
using steady = std::chrono::steady_clock;

// Long enough for sanitized code on a busy machine; a rank that hangs still fails its test.
#ifdef FTRT_SANITIZED
constexpr auto patience = 150s;
#else
constexpr auto patience = 30s;
#endif

[[noreturn]] void give_up(const std::string& why) {
  throw std::runtime_error(why);
}

}  // namespace

rank_group::rank_group(training_program& program, std::uint32_t world_size,
                       std::filesystem::path checkpoints)
    : program_(program),
      world_size_(world_size),
      checkpoints_(std::move(checkpoints)),
      members_(world_size) {
  FTRT_ASSERT(world_size <= 8);
}

rank_group::~rank_group() {
  for (auto& m : members_) lose(m);
}

void rank_group::faults(std::uint64_t seed, int count, fault kind) {
  const auto ranks = world_size_;
  sabotage_ = [=](std::uint64_t generation) -> std::optional<sabotage> {
    if (generation > static_cast<std::uint64_t>(count)) return {};
    data::counter_random random{data::hash_of(seed, generation)};
    auto what = kind;
    if (what == fault::any) {
      what = std::array{fault::abort, fault::kill_one, fault::kill_all}[random.below(3)];
    }
    sabotage plan;
    plan.ranks = what == fault::kill_all ? ~0U : 1U << random.below(ranks);
    plan.exchange = 1 + random.below(12);
    plan.how = what == fault::abort ? sabotage::mode::abort_later : sabotage::mode::die_later;
    plan.delay = std::chrono::microseconds(random.below(1500));
    return plan;
  };
}

void rank_group::spawn(std::uint32_t rank) {
  auto& m = members_[rank];
  int channel[2];
  int aborts[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0 ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, aborts) != 0) {
    give_up("socketpair failed");
  }
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork failed");
  if (pid == 0) {
    ::close(channel[0]);
    ::close(aborts[0]);
    for (auto& other : members_) {
      if (other.channel >= 0) ::close(other.channel);
      if (other.aborts >= 0) ::close(other.aborts);
    }
    be_child(rank, channel[1], aborts[1]);
  }
  ::close(channel[1]);
  ::close(aborts[1]);
  m.pid = pid;
  m.channel = channel[0];
  m.aborts = aborts[0];
}

void rank_group::lose(member& who) {
  if (!who.alive()) return;
  ::kill(who.pid, SIGKILL);
  ::waitpid(who.pid, nullptr, 0);
  ::close(who.channel);
  ::close(who.aborts);
  who.pid = who.channel = who.aborts = -1;
  who.has_state = who.decided = false;
}

void rank_group::send(member& to, const command& what) {
  iovec data{const_cast<command*>(&what), sizeof what};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * 17)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (what.what == command::kind::join) {
    std::vector<int> fds{sync_block_.fd().get()};
    for (const auto& m : members_) {
      fds.push_back(m.memories->bucket.fd().get());
      fds.push_back(m.memories->state.fd().get());
    }
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  // A rank that is gone is noticed when it is read from.
  static_cast<void>(::sendmsg(to.channel, &message, MSG_NOSIGNAL));
}

std::optional<std::uint32_t> rank_group::next_message(steady::time_point deadline, report& into) {
  for (;;) {
    std::vector<pollfd> polled;
    for (const auto& m : members_) polled.push_back({m.channel, POLLIN, 0});
    const auto left = std::max<steady::duration>(deadline - steady::now(), 0ns);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{seconds.count(), (left - seconds).count()};
    if (::ppoll(polled.data(), polled.size(), &timeout, nullptr) == 0) return {};
    for (std::uint32_t r = 0; r < world_size_; ++r) {
      if (polled[r].revents == 0) continue;
      if (::recv(members_[r].channel, &into, sizeof into, 0) != sizeof into) {
        lose(members_[r]);
        into.what = report::kind::interrupted;
        return r;
      }
      if (into.what == report::kind::snapshot) {
        take_snapshot(r, into);
        continue;
      }
      if (into.what == report::kind::failed) give_up(std::string{"the model threw: "} + into.text);
      return r;
    }
  }
}

// Collects the parts of an iteration; when all are there, they become a checkpoint.
void rank_group::take_snapshot(std::uint32_t rank, const report& from) {
  if (checkpoints_.empty()) return;
  auto held = storage::held_snapshot::hold(members_[rank].memories->snapshots,
                                           program_.layout().arena_bytes, from.slot);
  if (!held || held->header().iteration.value() != from.iteration) return;
  auto& parts = parts_[from.iteration];
  parts[from.part].assign(held->content().begin(), held->content().end());
  const auto folder = checkpoints_ / std::to_string(from.iteration);
  if (parts.size() != from.parts || std::filesystem::exists(folder)) return;
  storage::checkpoint_manifest header;
  header.run_id = "test";
  header.branch = branch_id{1};
  header.generation = generation_id{from.generation};
  header.iteration = iteration_id{from.iteration};
  header.world_size = world_size_;
  header.layout = program_.layout();
  std::vector<storage::checkpoint_part> content;
  for (const auto& [part, bytes] : parts) {
    content.push_back({part, rank_id{part}, incarnation_id{1}, bytes});
  }
  auto written = storage::write_checkpoint(folder, header, content);
  if (!written) give_up(written.error().describe());
  saved_iteration_ = std::max(saved_iteration_.value_or(0), from.iteration);
}

// DESIGN.md, "Choose the source of state".
void rank_group::assign_roles(std::vector<command>& orders) {
  std::uint64_t target = 0;
  std::optional<std::uint32_t> source;
  for (const auto& m : members_) {
    if (!m.has_state) continue;
    target = std::max(target, m.committed);
    if (m.decided) target = std::max(target, m.prepared);
  }
  for (std::uint32_t r = 0; r < world_size_; ++r) {
    const auto& m = members_[r];
    auto& order = orders[r];
    order.generation = generation_;
    order.iteration = target;
    if (m.has_state && m.committed == target) {
      order.role = state_role::keep;
    } else if (m.has_state && m.prepared == target) {
      order.role = state_role::apply_prepared;
      ++applied_prepared_;
    } else {
      order.role = state_role::receive;
      continue;
    }
    if (!source) source = r;
  }
  for (auto& order : orders) {
    if (source) {
      order.source = *source;
      received_ += order.role == state_role::receive ? 1 : 0;
      continue;
    }
    order.role = saved_iteration_ ? state_role::load_checkpoint : state_role::initial;
    order.iteration = saved_iteration_.value_or(0);
  }
  if (!source && generation_ > 1) ++rollbacks_;
}

void rank_group::begin_generation() {
  // All memories first: a child needs to know of every rank.
  for (auto& m : members_) {
    if (m.alive()) continue;
    m = member{std::make_unique<worker_memories>(program_),
               -1,
               -1,
               -1,
               false,
               0,
               0,
               false,
               m.incarnation + 1};
  }
  for (std::uint32_t r = 0; r < world_size_; ++r) {
    if (!members_[r].alive()) spawn(r);
  }
  ++generation_;
  sync_block_ = memory_of("sync", shm_sync_block_bytes(world_size_));
}

bool rank_group::join_all() {
  std::vector<command> orders(world_size_);
  assign_roles(orders);
  for (std::uint32_t r = 0; r < world_size_; ++r) send(members_[r], orders[r]);
  for (std::uint32_t waiting = world_size_; waiting > 0; --waiting) {
    report got;
    const auto from = next_message(steady::now() + patience, got);
    if (!from) give_up("a join does not end");
    if (got.what == report::kind::interrupted) return false;
    if (got.what == report::kind::join_failed) {
      // Expected only where a rank was lost meanwhile.
      if (std::strstr(got.text, "aborted") == nullptr && std::strstr(got.text, "lost") == nullptr) {
        give_up(got.text);
      }
      return false;
    }
  }
  return true;
}

// True: all ranks finished with one digest. False: something was lost.
bool rank_group::train_all() {
  for (auto& m : members_) send(m, {command::kind::train, generation_, {}, 0, 0});
  std::string digest;
  for (std::uint32_t waiting = world_size_; waiting > 0;) {
    report got;
    const auto from = next_message(steady::now() + patience, got);
    if (!from) give_up("training does not end");
    if (got.what != report::kind::finished) return false;
    if (!digest.empty() && digest != got.text) give_up("ranks end with different weights");
    digest = got.text;
    members_[*from].committed = got.iteration;
    last_.weights_digest = got.text;
    last_.iteration = iteration_id{got.iteration};
    last_.optimizer_steps = got.optimizer_steps;
    last_.test_accuracy = got.test_accuracy;
    --waiting;
  }
  return true;
}

void rank_group::revoke_all() {
  std::uint32_t waiting = 0;
  for (auto& m : members_) {
    if (!m.alive()) continue;
    static_cast<void>(::send(m.aborts, &generation_, sizeof generation_, MSG_NOSIGNAL));
    send(m, {command::kind::park, generation_, {}, 0, 0});
  }
  std::vector<bool> parked(world_size_);
  const auto missing = [&] {
    waiting = 0;
    for (std::uint32_t r = 0; r < world_size_; ++r) {
      waiting += members_[r].alive() && !parked[r] ? 1 : 0;
    }
    return waiting > 0;
  };
  while (missing()) {
    report got;
    const auto from = next_message(steady::now() + patience, got);
    if (!from) give_up("a rank does not park");
    if (got.what != report::kind::parked) continue;
    auto& m = members_[*from];
    parked[*from] = true;
    m.committed = got.iteration;
    m.prepared = got.prepared;
    m.decided = got.decided;
    m.has_state = got.has_state;
  }
}

protocol::finished rank_group::run() {
  constexpr std::uint64_t max_generations = 400;
  while (generation_ < max_generations) {
    begin_generation();
    if (join_all() && train_all()) return last_;
    revoke_all();
  }
  give_up("no end after " + std::to_string(max_generations) + " generations");
}

}  // namespace ftrt::testing
