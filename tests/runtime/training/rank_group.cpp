#include "rank_group.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <runtime/communicator/shm_communicator.hpp>
#include <runtime/data/random.hpp>
#include <storage/checkpoint.hpp>
#include <thread>

namespace ftrt::testing {
namespace {

using namespace std::chrono_literals;
using protocol::state_role;
using steady = std::chrono::steady_clock;

constexpr auto patience = 30s;

[[noreturn]] void give_up(const std::string& why) {
  throw std::runtime_error(why);
}

}  // namespace

struct rank_group::report {
  enum class kind { joined, join_failed, interrupted, parked, finished, failed, snapshot };
  kind what = kind::failed;
  std::uint64_t generation = 0;
  std::uint64_t iteration = 0;  // committed; of the snapshot
  std::uint64_t prepared = 0;
  std::uint64_t optimizer_steps = 0;
  double test_accuracy = 0;
  bool decided = false;
  bool has_state = false;
  bool final = false;
  std::uint32_t slot = 0, part = 0, parts = 0;
  char text[256] = {};
};

struct rank_group::command {
  enum class kind { join, train, park };
  kind what = kind::join;
  std::uint64_t generation = 0;
  state_role role = state_role::keep;
  std::uint64_t iteration = 0;
  std::uint32_t source = 0;
};

struct rank_group::member {
  std::unique_ptr<worker_memories> memories;
  pid_t pid = -1;
  int channel = -1;  // commands and reports
  int aborts = -1;   // generations to revoke
  bool has_state = false;
  std::uint64_t committed = 0;
  std::uint64_t prepared = 0;
  bool decided = false;
  std::uint32_t incarnation = 0;

  [[nodiscard]] bool alive() const { return pid > 0; }
};

// ---- the child ---------------------------------------------------------------------------------

namespace {

// Revokes from a second thread, as a worker's control thread does.
class revoker {
 public:
  explicit revoker(int aborts)
      : thread_([this, aborts] {
          std::uint64_t generation = 0;
          while (::read(aborts, &generation, sizeof generation) == sizeof generation) {
            revoke(generation);
          }
        }) {
    thread_.detach();
  }
  void revoke(std::uint64_t generation) {
    const std::lock_guard lock(mutex_);
    revoked_ = std::max(revoked_, generation);
    if (current_ != nullptr && current_->generation().value() <= revoked_) current_->abort();
  }
  void watch(communicator* comm) {
    const std::lock_guard lock(mutex_);
    current_ = comm;
    if (comm != nullptr && comm->generation().value() <= revoked_) comm->abort();
  }

 private:
  std::mutex mutex_;
  std::uint64_t revoked_ = 0;
  communicator* current_ = nullptr;
  std::thread thread_;
};

}  // namespace

void rank_group::be_child(std::uint32_t rank, int commands, int aborts) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto say = [commands](const report& r) {
    if (::send(commands, &r, sizeof r, MSG_NOSIGNAL) != sizeof r) ::_exit(1);
  };
  const auto text_of = [](report& r, const std::string& text) {
    std::strncpy(r.text, text.c_str(), sizeof r.text - 1);
  };
  revoker control{aborts};
  trainer worker{program_,
                 members_[rank].memories->make(),
                 rank_id{rank},
                 incarnation_id{members_[rank].incarnation},
                 {[&say](const protocol::snapshot_ready& s) {
                   report r;
                   r.what = report::kind::snapshot;
                   r.generation = s.generation.value();
                   r.iteration = s.iteration.value();
                   r.slot = s.slot;
                   r.part = s.part;
                   r.parts = s.parts;
                   r.final = s.final;
                   say(r);
                 }}};

  const auto join = [&](const command& order) {
    report r;
    r.what = report::kind::join_failed;
    r.generation = order.generation;
    shm_membership membership{
        generation_id{order.generation}, rank_id{rank}, world_size_, {}, {}, 0ns};
    membership.sync_block = second_map(sync_block_);
    for (const auto& m : members_) membership.buckets.push_back(second_map(m.memories->bucket));
    auto made = make_shm_communicator(std::move(membership));
    if (!made) {
      text_of(r, made.error().describe());
      return say(r);
    }
    std::shared_ptr<communicator> comm = std::move(*made);
    if (const auto plan = sabotage_ ? sabotage_(order.generation) : std::nullopt;
        plan && (plan->ranks >> rank & 1U) != 0) {
      comm = std::make_shared<saboteur>(
          comm, *plan, [&control, generation = order.generation] { control.revoke(generation); });
    }
    control.watch(comm.get());
    storage::shared_memory source;
    if (order.role == state_role::receive) {
      source = second_map(members_[order.source].memories->state);
    }
    const protocol::join request{generation_id{order.generation},
                                 branch_id{1},
                                 rank_id{rank},
                                 world_size_,
                                 order.role,
                                 iteration_id{order.iteration},
                                 rank_id{order.source},
                                 (checkpoints_ / std::to_string(order.iteration)).string()};
    auto joined = worker.join(request, comm, source.valid() ? &source : nullptr);
    if (!joined) {
      control.watch(nullptr);
      text_of(r, joined.error().describe());
      return say(r);
    }
    r.what = report::kind::joined;
    say(r);
  };

  const auto train = [&] {
    auto outcome = worker.train();
    report r;
    if (auto* done = std::get_if<training_finished>(&outcome)) {
      r.what = report::kind::finished;
      r.iteration = done->report.iteration.value();
      r.optimizer_steps = done->report.optimizer_steps;
      r.test_accuracy = done->report.test_accuracy;
      text_of(r, done->report.weights_digest);
    } else if (auto* lost = std::get_if<training_interrupted>(&outcome)) {
      r.what = report::kind::interrupted;
      text_of(r, lost->why.describe());
    } else {
      text_of(r, std::get<training_failed>(outcome).text);
    }
    say(r);
  };

  const auto park = [&] {
    const auto parked = worker.park();
    report r;
    r.what = report::kind::parked;
    r.generation = parked.generation.value();
    r.iteration = parked.committed.value();
    r.prepared = parked.prepared.value();
    r.decided = parked.decided;
    r.has_state = parked.has_state;
    say(r);
  };

  command order;
  for (;;) {
    // A join carries the sync block's descriptor.
    iovec data{&order, sizeof order};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * 17)];
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    if (::recvmsg(commands, &message, MSG_CMSG_CLOEXEC) != sizeof order) ::_exit(0);
    if (const auto* c = CMSG_FIRSTHDR(&message); c != nullptr) {
      const auto count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::vector<int> fds(count);
      std::memcpy(fds.data(), CMSG_DATA(c), count * sizeof(int));
      const auto map = [](int fd, std::size_t size) {
        auto mapped = storage::shared_memory::map(storage::unique_fd{fd}, size,
                                                  storage::shared_memory::access::read_write);
        if (!mapped) ::_exit(2);
        return std::move(*mapped);
      };
      sync_block_ = map(fds[0], shm_sync_block_bytes(world_size_));
      // The memories of ranks that were forked after this one.
      for (std::uint32_t r = 0; r < world_size_; ++r) {
        members_[r].memories->bucket = map(fds[1 + 2 * r], program_.bucket_bytes());
        members_[r].memories->state = map(fds[2 + 2 * r], program_.layout().arena_bytes);
      }
    }
    switch (order.what) {
      case command::kind::join:
        join(order);
        break;
      case command::kind::train:
        train();
        break;
      case command::kind::park:
        park();
        break;
    }
  }
}

// ---- control -----------------------------------------------------------------------------------

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
