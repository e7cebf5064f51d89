#include <runtime/communicator/shm_communicator.hpp>
#include <runtime/worker/membership.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <string>
#include <utility>

namespace ftrt::worker {
namespace {

using storage::shared_memory;
using access = storage::shared_memory::access;

result<void> check(const protocol::join& request, std::size_t descriptors,
                   const training_program& program, rank_id own_rank) {
  const auto number = [](auto n) { return std::to_string(n); };
  if (request.rank != own_rank) {
    return fail(error_code::invalid_argument, "join: expected rank " + number(own_rank.value()) +
                                                  ", found " + number(request.rank.value()));
  }
  if (request.world_size <= own_rank.value() ||
      request.world_size > program.values().cluster.ranks) {
    return fail(error_code::invalid_argument,
                "join: world size " + number(request.world_size) + " does not fit rank " +
                    number(own_rank.value()) + " of a scenario with " +
                    number(program.values().cluster.ranks) + " ranks");
  }
  const bool receives = request.role == protocol::state_role::receive;
  if (receives && (request.source == own_rank || request.source.value() >= request.world_size)) {
    return fail(error_code::invalid_argument, "join: rank " + number(request.source.value()) +
                                                  " cannot be the source of the state");
  }
  const bool loads = request.role == protocol::state_role::load_snapshot;
  const std::size_t expected = 1 + request.world_size + (receives || loads ? 1 : 0);
  if (descriptors != expected) {
    return fail(error_code::invalid_argument, "join: expected " + number(expected) +
                                                  " descriptors, found " + number(descriptors));
  }
  return {};
}

// One memory after the other, the first failure wins and is named.
class mapper {
 public:
  shared_memory map(unique_fd fd, std::size_t size_bytes, access mode, const std::string& what) {
    if (failed_) return {};
    auto memory = shared_memory::map(std::move(fd), size_bytes, mode);
    if (memory) return std::move(*memory);
    failed_ = std::move(memory.error()).with_context("while mapping the " + what);
    return {};
  }
  const std::optional<error>& failed() const { return failed_; }

 private:
  std::optional<error> failed_;
};

}  // namespace

result<join_command> prepare_join(const protocol::join& request, std::vector<unique_fd> descriptors,
                                  const training_program& program, rank_id own_rank,
                                  const source_memories* sources) {
  if (auto fits = check(request, descriptors.size(), program, own_rank); !fits) {
    return tl::unexpected(fits.error());
  }
  mapper maps;
  join_command command;
  command.request = request;
  auto next = descriptors.begin();
  command.sync_block = maps.map(std::move(*next++), shm_sync_block_bytes(request.world_size),
                                access::read_write, "sync block");
  for (std::uint32_t rank = 0; rank < request.world_size; ++rank) {
    command.buckets.push_back(maps.map(std::move(*next++), program.bucket_bytes(),
                                       access::read_write,
                                       "bucket memory of rank " + std::to_string(rank)));
  }
  if (next != descriptors.end()) {
    if (sources != nullptr) command.source_state = sources->find(*next);
    if (!command.source_state) {
      command.source_state = std::make_shared<shared_memory>(
          maps.map(std::move(*next), program.layout().arena_bytes, access::read_only,
                   "memory with the state to copy"));
    }
  }
  if (maps.failed()) return tl::unexpected(*maps.failed());
  return command;
}

result<worker_memory> map_worker_memory(memory_descriptors descriptors,
                                        const training_program& program) {
  const auto arena_bytes = program.layout().arena_bytes;
  mapper maps;
  worker_memory memory;
  memory.progress = maps.map(std::move(descriptors.progress), storage::progress_memory_bytes(),
                             access::read_write, "progress memory");
  memory.snapshots =
      maps.map(std::move(descriptors.snapshots), storage::snapshot_memory_bytes(arena_bytes),
               access::read_write, "snapshot memory");
  memory.bucket = maps.map(std::move(descriptors.bucket), program.bucket_bytes(),
                           access::read_write, "bucket memory");
  memory.state =
      maps.map(std::move(descriptors.state), arena_bytes, access::read_write, "state memory");
  if (maps.failed()) return tl::unexpected(*maps.failed());
  return memory;
}

}  // namespace ftrt::worker
