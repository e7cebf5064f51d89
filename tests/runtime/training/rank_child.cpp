// The child's half of rank_group: what a worker does, in a few lines.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <runtime/communicator/shm_communicator.hpp>
#include <thread>

#include "rank_group_messages.hpp"

namespace ftrt::testing {

using protocol::state_role;

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
    shm_membership membership{generation_id{order.generation}, rank_id{rank}, world_size_, {}, {},
                              std::chrono::nanoseconds{0}};
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

}  // namespace ftrt::testing
