#include <tests/runtime/worker/mini_control.hpp>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <storage/snapshot.hpp>

extern char** environ;

namespace ftrt::testing {
namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what);
}

template <class T>
T need(result<T> value, const std::string& what) {
  if (!value) give_up(what + ": " + value.error().describe());
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

storage::shared_memory memory(const char* name, std::size_t bytes) {
  return need(storage::shared_memory::create(name, bytes), name);
}

std::vector<std::string> environment(bool one_thread) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("OMP_NUM_THREADS=") || text.starts_with("MKL_NUM_THREADS=")) continue;
    variables.emplace_back(text);
  }
  if (one_thread) {
    variables.emplace_back("OMP_NUM_THREADS=1");
    variables.emplace_back("MKL_NUM_THREADS=1");
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

int spawn(const std::filesystem::path& program, int channel, bool one_thread) {
  std::vector<std::string> words{program.string(), "--zygote", "--channel",
                                 std::to_string(channel)};
  auto variables = environment(one_thread);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, channel, channel);  // clears close-on-exec
  int pid = 0;
  const int fault = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) give_up("cannot start " + program.string() + ": " + std::strerror(fault));
  return pid;
}

}  // namespace

mini_control::mini_control(const std::filesystem::path& worker_program,
                           bool one_thread_environment) {
  auto ends = need(protocol::socket_pair(SOCK_SEQPACKET), "socket_pair");
  channel_ = std::move(ends.first);
  zygote_pid_ = spawn(worker_program, ends.second.get(), one_thread_environment);
  zygote_pidfd_ = test::open_pidfd(zygote_pid_);
}

mini_control::~mini_control() {
  channel_.reset();
  for (auto& worker : workers_) {
    if (worker) retired_.push_back(std::move(worker));
  }
  if (spare_) retired_.push_back(std::move(spare_));
  for (auto& worker : retired_) {
    worker->lifeline.reset();
    worker->control.reset();
  }
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
  if (!zygote_reaped_) {
    EXPECT_TRUE(test::ends_within(zygote_pidfd_, time)) << "the zygote did not leave";
    ::kill(zygote_pid_, SIGKILL);
    ::waitpid(zygote_pid_, nullptr, 0);
  }
  for (auto& worker : retired_) {
    if (test::ends_within(worker->pidfd, std::chrono::seconds{1})) continue;
    ADD_FAILURE() << "rank " << worker->rank << " outlived its zygote";
    ::syscall(SYS_pidfd_send_signal, worker->pidfd.get(), SIGKILL, nullptr, 0);
  }
}

protocol::message mini_control::configure(const scenario& values, bool check_only) {
  send_to_zygote(protocol::zygote_configure{to_toml(values), check_only});
  return next_from_zygote();
}

const protocol::zygote_ready& mini_control::start(const scenario& values) {
  auto answer = configure(values);
  if (auto* refused = std::get_if<protocol::zygote_refused>(&answer)) {
    give_up("refused: " + refused->diagnostics.at(0).describe());
  }
  ready_ = std::get<protocol::zygote_ready>(answer);
  workers_.resize(values.cluster.ranks);
  return ready_;
}

worker_end& mini_control::fork(std::uint32_t rank) {
  const auto incarnation = retire(rank);
  return place(rank, order_fork({rank_id{rank}, incarnation}));
}

worker_end& mini_control::fork_spare(std::uint32_t number) {
  spare_ = order_fork({{}, {}, number});
  const auto said =
      need(protocol::receive_packet(spare_->lifeline.get(), clock::now() + patience), "spare");
  EXPECT_TRUE(std::holds_alternative<protocol::spare_ready>(said.body));
  return *spare_;
}

worker_end& mini_control::assign_spare(std::uint32_t rank) {
  const auto incarnation = retire(rank);
  spare_->rank = rank_id{rank};
  spare_->incarnation = incarnation;
  need(protocol::send_packet(spare_->lifeline.get(),
                             protocol::assign{spare_->rank, spare_->incarnation}),
       "assign");
  return place(rank, std::move(spare_));
}

// The incarnation that comes next.
incarnation_id mini_control::retire(std::uint32_t rank) {
  auto& slot = workers_.at(rank);
  if (!slot) return incarnation_id{1};
  const auto next = slot->incarnation.next();
  retired_.push_back(std::move(slot));
  return next;
}

worker_end& mini_control::place(std::uint32_t rank, std::unique_ptr<worker_end> worker) {
  auto& slot = workers_.at(rank);
  slot = std::move(worker);
  const auto hello = expect<protocol::hello>(rank);
  EXPECT_EQ(hello.pid, slot->pid);
  EXPECT_EQ(hello.rank, slot->rank);
  EXPECT_EQ(hello.incarnation, slot->incarnation);
  return *slot;
}

std::unique_ptr<worker_end> mini_control::order_fork(const protocol::fork_worker& order) {
  auto worker = std::make_unique<worker_end>();
  worker->rank = order.rank;
  worker->incarnation = order.incarnation;
  auto control = need(protocol::socket_pair(SOCK_STREAM), "socket_pair");
  auto lifeline = need(protocol::socket_pair(SOCK_SEQPACKET), "socket_pair");
  worker->control = std::move(control.first);
  worker->lifeline = std::move(lifeline.first);
  worker->progress = memory("progress", storage::progress_memory_bytes());
  worker->snapshots =
      memory("snapshots", storage::snapshot_memory_bytes(ready_.layout.arena_bytes));
  worker->bucket = memory("bucket", ready_.bucket_bytes);
  worker->state = memory("state", ready_.layout.arena_bytes);
  send_to_zygote(order, {control.second.get(), lifeline.second.get(), worker->progress.fd().get(),
                         worker->snapshots.fd().get(), worker->bucket.fd().get(),
                         worker->state.fd().get(), STDERR_FILENO});
  auto packet = next_packet();
  while (std::holds_alternative<protocol::worker_exited>(packet.body)) packet = next_packet();
  if (const auto* failed = std::get_if<protocol::fork_failed>(&packet.body)) {
    give_up("fork failed: " + failed->text);
  }
  const auto& forked = std::get<protocol::worker_forked>(packet.body);
  EXPECT_EQ(forked.spare, order.spare);
  worker->pid = forked.pid;
  worker->pidfd = std::move(packet.descriptors.at(0));
  return worker;
}

void mini_control::send_joins(std::uint64_t generation, std::uint32_t world_size,
                              const std::vector<part>& parts) {
  const auto sync_block = memory("sync", ready_.sync_block_bytes);
  for (const auto& p : parts) {
    protocol::join request;
    request.generation = generation_id{generation};
    request.branch = branch_id{1};
    request.rank = rank_id{p.rank};
    request.world_size = world_size;
    request.role = p.role;
    request.iteration = iteration_id{p.iteration};
    request.source = rank_id{p.source};
    std::vector<int> descriptors{sync_block.fd().get()};
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      descriptors.push_back(at(rank).bucket.fd().get());
    }
    if (p.role == protocol::state_role::receive) {
      descriptors.push_back(at(p.source).state.fd().get());
    }
    send_packet(p.rank, request, descriptors);
  }
}

void mini_control::join_and_train(std::uint64_t generation, const std::vector<part>& parts) {
  send_joins(generation, static_cast<std::uint32_t>(parts.size()), parts);
  std::vector<std::string> digests;
  for (const auto& p : parts) {
    const auto joined = expect<protocol::joined>(p.rank);
    EXPECT_EQ(joined.generation, generation_id{generation});
    digests.push_back(joined.state_digest);
  }
  EXPECT_EQ(std::count(digests.begin(), digests.end(), digests.front()),
            static_cast<std::ptrdiff_t>(digests.size()));
  for (const auto& p : parts) send(p.rank, protocol::train{generation_id{generation}});
}

void mini_control::send(std::uint32_t rank, const protocol::message& m) {
  need(protocol::write_frame(at(rank).control.get(), m, clock::now() + patience), "write_frame");
}

void mini_control::send_packet(std::uint32_t rank, const protocol::message& m,
                               std::vector<int> descriptors) {
  need(protocol::send_packet(at(rank).lifeline.get(), m, descriptors), "lifeline");
}

void mini_control::send_to_zygote(const protocol::message& m, std::vector<int> descriptors) {
  need(protocol::send_packet(channel_.get(), m, descriptors), "zygote channel");
}

void mini_control::send_attach(std::uint32_t rank) {
  auto ends = need(protocol::socket_pair(SOCK_STREAM), "socket_pair");
  send_packet(rank, protocol::attach_control{}, {ends.second.get()});
  at(rank).control = std::move(ends.first);
  at(rank).reader = {};
}

protocol::hello mini_control::reattach(std::uint32_t rank) {
  send_attach(rank);
  return expect<protocol::hello>(rank);
}

void mini_control::wait_committed(std::uint32_t rank, std::uint64_t iteration) {
  storage::progress_reader reader{at(rank).progress};
  const auto deadline = clock::now() + patience;
  while (reader.view().committed.value() < iteration) {
    if (clock::now() > deadline) give_up("rank " + std::to_string(rank) + " does not progress");
    ::usleep(100);  // a word in shared memory has no event
  }
}

void mini_control::kill(std::uint32_t rank, int signal) {
  ::syscall(SYS_pidfd_send_signal, at(rank).pidfd.get(), signal, nullptr, 0);
}

int mini_control::wait_for_zygote() {
  if (!test::ends_within(zygote_pidfd_, patience)) give_up("the zygote did not leave");
  int status = 0;
  ::waitpid(zygote_pid_, &status, 0);
  zygote_reaped_ = true;
  return status;
}

protocol::message mini_control::next_message(worker_end& worker, protocol::time_point deadline,
                                             std::string_view wanted) {
  while (true) {
    if (auto m = worker.reader.next()) return need(std::move(*m), "frame");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    pollfd fd{worker.control.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&fd, 1, static_cast<int>(left)) == 0) {
      std::string said;
      for (const auto& m : worker.skipped) said += " " + std::string{protocol::name_of(m)};
      give_up("rank " + std::to_string(worker.rank.value()) + " did not say " +
              std::string{wanted} + "; it said:" + said);
    }
    const auto read = protocol::read_available(worker.control.get(), worker.reader);
    if (!read && read.error().code != error_code::busy) give_up(read.error().describe());
  }
}

protocol::packet mini_control::next_packet() {
  return need(protocol::receive_packet(channel_.get(), clock::now() + patience), "zygote");
}

scenario small_scenario() {
  scenario values;
  values.run.seed = 7;
  values.cluster.ranks = 2;
  values.model.kind = "mlp";
  values.model.layers = {16, 12, 4};
  values.model.dropout = 0.2;
  values.data.kind = "synthetic";
  values.data.samples = 512;
  values.data.test_samples = 64;
  values.train.epochs = 30;
  values.train.global_batch = 16;
  values.train.micro_batch = 4;
  values.train.momentum = 0.9;
  values.train.evaluate_every_epochs = 0;
  values.train.bucket_bytes = 1u << 16;
  values.checkpoint.every_iterations = 500;
  values.supervision.grace_period = std::chrono::milliseconds{500};
  return values;
}

}  // namespace ftrt::testing
