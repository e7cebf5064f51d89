#include <tests/runtime/communicator/ranks_fixture.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <runtime/communicator/membership_views.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ftrt::tests {
namespace {

std::string run_guarded(const rank_program& program, std::uint32_t rank) {
  try {
    return program(rank);
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

[[noreturn]] void run_child(const rank_program& program, std::uint32_t rank, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const std::string complaint = run_guarded(program, rank);
  if (!complaint.empty()) std::fprintf(stderr, "rank %u: %s\n", rank, complaint.c_str());
  _exit(complaint.empty() ? 0 : 1);
}

bool readable(int fd, std::chrono::milliseconds deadline) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, static_cast<int>(deadline.count())) == 1;
}

storage::shared_memory same_memory(const storage::shared_memory& memory) {
  auto fd = memory.fd().duplicate();
  auto mapped = storage::shared_memory::map(std::move(*fd), memory.size(),
                                            storage::shared_memory::access::read_write);
  if (!mapped) throw std::runtime_error(mapped.error().describe());
  return std::move(*mapped);
}

}  // namespace

forked_ranks::forked_ranks(std::uint32_t count, const rank_program& program) {
  const pid_t parent = getpid();
  std::fflush(nullptr);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) run_child(program, rank, parent);
    if (pid < 0) throw std::runtime_error("fork failed");
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    children_.push_back({pid, pidfd, false, {}});
  }
}

forked_ranks::~forked_ranks() {
  for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
    kill(rank);
    wait(rank, 0ms);
    close(children_[rank].pidfd);
  }
}

void forked_ranks::kill(std::uint32_t rank) {
  if (!children_[rank].reaped) ::kill(children_[rank].pid, SIGKILL);
}

rank_end forked_ranks::wait(std::uint32_t rank, std::chrono::milliseconds deadline) {
  child& one = children_[rank];
  if (one.reaped) return one.end;
  one.end.overstayed = !readable(one.pidfd, deadline);
  if (one.end.overstayed) kill(rank);
  int status = 0;
  while (waitpid(one.pid, &status, 0) < 0 && errno == EINTR) {
  }
  one.reaped = true;
  one.end.killed = WIFSIGNALED(status);
  one.end.code = one.end.killed ? WTERMSIG(status) : WEXITSTATUS(status);
  return one.end;
}

std::vector<rank_end> forked_ranks::wait_all(std::chrono::milliseconds deadline) {
  const std::int64_t until = now_ns() + std::chrono::nanoseconds(deadline).count();
  std::vector<rank_end> ends;
  for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
    const std::int64_t left_ms = std::max<std::int64_t>(0, (until - now_ns()) / 1000000);
    ends.push_back(wait(rank, std::chrono::milliseconds(left_ms)));
  }
  return ends;
}

void expect_all_well(std::uint32_t count, const rank_program& program) {
  forked_ranks ranks{count, program};
  const std::vector<rank_end> ends = ranks.wait_all();
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    EXPECT_FALSE(ends[rank].overstayed) << "rank " << rank << " of " << count << " hung";
    EXPECT_FALSE(ends[rank].killed) << "rank " << rank << ", signal " << ends[rank].code;
    EXPECT_EQ(ends[rank].code, 0) << "rank " << rank << " of " << count;
  }
}

void expect_all_well_in_threads(std::uint32_t count, const rank_program& program) {
  std::vector<std::string> complaints(count);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] { complaints[rank] = run_guarded(program, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    EXPECT_EQ(complaints[rank], "") << "rank " << rank << " of " << count;
  }
}

rank_world::rank_world(std::uint32_t world_size, std::size_t bucket_bytes)
    : world_size_(world_size) {
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    buckets_.push_back(*storage::shared_memory::create("ftrt-bucket", bucket_bytes));
  }
  begin_generation();
}

void rank_world::begin_generation() {
  sync_blocks_.push_back(
      *storage::shared_memory::create("ftrt-sync", shm_sync_block_bytes(world_size_)));
}

result<std::unique_ptr<communicator>> rank_world::try_join(std::uint32_t rank, mapping how,
                                                           std::chrono::nanoseconds timeout,
                                                           std::size_t generation) {
  if (generation == 0) generation = sync_blocks_.size();
  storage::shared_memory& sync = sync_blocks_.at(generation - 1);
  if (how == mapping::shared) {
    shm::membership_views views{
        generation_id{generation}, rank_id{rank}, world_size_, sync.bytes(), {}, timeout, nullptr};
    for (storage::shared_memory& bucket : buckets_) views.buckets.push_back(bucket.bytes());
    return shm::make_communicator(std::move(views));
  }
  return try_join_as(
      {generation_id{generation}, rank_id{rank}, world_size_, same_memory(sync), {}, timeout});
}

result<std::unique_ptr<communicator>> rank_world::try_join_as(shm_membership membership) {
  if (!membership.sync_block.valid()) membership.sync_block = same_memory(sync_blocks_.back());
  for (const auto& bucket : buckets_) membership.buckets.push_back(same_memory(bucket));
  return make_shm_communicator(std::move(membership));
}

std::unique_ptr<communicator> rank_world::join(std::uint32_t rank, mapping how) {
  auto joined = try_join(rank, how);
  if (!joined) throw std::runtime_error(joined.error().describe());
  return std::move(*joined);
}

signal_pipe::signal_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  read_ = ends[0];
  write_ = ends[1];
}

signal_pipe::~signal_pipe() {
  close(read_);
  close(write_);
}

void signal_pipe::raise(std::uint32_t times) {
  const std::string bytes(times, 'x');
  if (write(write_, bytes.data(), bytes.size()) < 0) throw std::runtime_error("write failed");
}

bool signal_pipe::wait(std::uint32_t times, std::chrono::milliseconds deadline) {
  char byte = 0;
  for (std::uint32_t i = 0; i < times; ++i) {
    if (!readable(read_, deadline) || read(read_, &byte, 1) != 1) return false;
  }
  return true;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint64_t test_seed() {
  const char* given = std::getenv("FTRT_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu (set FTRT_TEST_SEED to repeat)\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace ftrt::tests
