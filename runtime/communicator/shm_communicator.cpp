#include <runtime/communicator/shm_communicator.hpp>

#include <algorithm>
#include <optional>
#include <runtime/communicator/exchange_board.hpp>
#include <runtime/communicator/letters.hpp>
#include <runtime/communicator/loss_watch.hpp>
#include <runtime/communicator/membership_views.hpp>
#include <runtime/communicator/peers.hpp>
#include <runtime/communicator/reduction_queue.hpp>
#include <string>
#include <utility>

namespace ftrt {
namespace shm {
namespace {

class shm_communicator final : public communicator {
 public:
  shm_communicator(const membership_views& views, peers seat)
      : owner_(views.owner),
        generation_(views.generation),
        peers_(std::move(seat)),
        queue_(peers_, views.buckets),
        board_(peers_),
        letters_(peers_) {}

  rank_id rank() const override { return rank_id{peers_.rank()}; }
  std::uint32_t world_size() const override { return peers_.world_size(); }
  generation_id generation() const override { return generation_; }
  std::uint64_t sequence() const override { return queue_.completed() + others_completed_; }
  std::vector<rank_id> lost_peers() const override { return peers_.lost(); }
  void abort() noexcept override { peers_.abort(); }
  void on_wait(std::function<void()> beat) override { peers_.on_wait(std::move(beat)); }
  void on_loss(std::function<void(std::vector<rank_id>)> tell) override {
    watch_.emplace(peers_, std::move(tell));
  }
  result<void> check() override { return peers_.check(); }

  result<void> begin_all_reduce(const bucket_region& region, reduce_op op) override {
    return queue_.begin_all_reduce(region, op);
  }
  result<void> finish_reductions() override { return queue_.drain(); }

  result<void> reduce_scatter(const bucket_region& region, reduce_op op) override {
    return drained(queue_.begin_reduce_scatter(region, op));
  }
  result<void> all_gather(const bucket_region& region) override {
    return drained(queue_.begin_all_gather(region));
  }
  result<void> barrier() override { return drained(queue_.begin_barrier()); }

  result<void> broadcast(std::span<std::byte> bytes, rank_id root) override {
    if (auto known = check_rank(root); !known) return known;
    return counted(letters_.broadcast(bytes, root.value()));
  }
  result<void> send(std::span<const std::byte> bytes, rank_id to) override {
    if (auto known = check_peer(to); !known) return known;
    return counted(letters_.send(bytes, to.value()));
  }
  result<void> recv(std::span<std::byte> bytes, rank_id from) override {
    if (auto known = check_peer(from); !known) return known;
    return counted(letters_.recv(bytes, from.value()));
  }

  result<void> exchange(std::uint64_t key, std::span<const std::byte> mine,
                        std::span<std::byte> all) override {
    return counted(board_.exchange(key, mine, all));
  }
  bool exchanged(std::uint64_t key, std::span<std::byte> all) override {
    return board_.exchanged(key, all);
  }

 private:
  result<void> drained(result<void> begun) { return begun ? queue_.drain() : begun; }

  result<void> counted(result<void> done) {
    if (done) ++others_completed_;
    return done;
  }

  result<void> check_rank(rank_id rank) const {
    if (rank.value() < world_size()) return {};
    return fail(error_code::invalid_argument, "there is no rank " + std::to_string(rank.value()) +
                                                  " among " + std::to_string(world_size()));
  }

  result<void> check_peer(rank_id other) const {
    if (other != rank()) return check_rank(other);
    return fail(error_code::invalid_argument, "a rank cannot send to or receive from itself");
  }

  std::shared_ptr<void> owner_;  // first, so that the memory outlives all that works on it
  generation_id generation_;
  peers peers_;
  reduction_queue queue_;
  exchange_board board_;
  letters letters_;
  std::uint64_t others_completed_ = 0;
  std::optional<loss_watch> watch_;  // last, so that it ends first
};

result<void> check(const membership_views& views) {
  const auto refuse = [](std::string why) {
    return fail(error_code::invalid_argument, "membership: " + std::move(why));
  };
  if (views.world_size == 0 || views.world_size > max_world_size) {
    return refuse("expected 1 to " + std::to_string(max_world_size) + " ranks on one host, found " +
                  std::to_string(views.world_size));
  }
  if (views.rank.value() >= views.world_size) {
    return refuse("rank " + std::to_string(views.rank.value()) + " of " +
                  std::to_string(views.world_size) + " does not exist");
  }
  if (views.generation.value() == 0) return refuse("generation 0 means none");
  if (views.timeout.count() < 0) return refuse("the timeout is negative");
  if (views.buckets.size() != views.world_size) {
    return refuse("expected the bucket of each of " + std::to_string(views.world_size) +
                  " ranks, found " + std::to_string(views.buckets.size()));
  }
  const std::size_t needed = shm_sync_block_bytes(views.world_size);
  if (views.sync_block.size() < needed) {
    return refuse("expected a sync block of " + std::to_string(needed) + " bytes, found " +
                  std::to_string(views.sync_block.size()));
  }
  return {};
}

}  // namespace

result<std::unique_ptr<communicator>> make_communicator(membership_views views) {
  if (auto fine = check(views); !fine) return tl::unexpected(fine.error());
  const sync_block block{views.sync_block.data(), views.world_size};
  auto seat = peers::take_seat(block, views.generation, views.rank, views.timeout);
  if (!seat) return tl::unexpected(std::move(seat.error()));
  return std::make_unique<shm_communicator>(views, std::move(*seat));
}

}  // namespace shm

result<std::unique_ptr<communicator>> make_shm_communicator(shm_membership membership) {
  auto owner = std::make_shared<shm_membership>(std::move(membership));
  shm::membership_views views{
      owner->generation, owner->rank, owner->world_size, owner->sync_block.bytes(), {},
      owner->timeout,    owner};
  for (const storage::shared_memory& bucket : owner->buckets) {
    views.buckets.push_back(bucket.bytes());
  }
  return shm::make_communicator(std::move(views));
}

}  // namespace ftrt
