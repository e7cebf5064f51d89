#include <runtime/communicator/peers.hpp>

#include <sched.h>

#include <array>
#include <string>
#include <utility>

namespace ftrt::shm {
namespace {

using std::chrono::steady_clock;

// Long enough for a peer that is about to arrive, short against a sleep and a wake-up.
constexpr std::chrono::microseconds spin_time{40};
// A peer that has not come by then may be waiting for this very core.
constexpr std::chrono::microseconds yield_after{5};
constexpr int looks_between_clock_reads = 64;
// Nothing relies on it but a rank killed in the few instructions between locking its robust lock
// and asking the kernel to wake the sleepers on it. It is also the pulse of on_wait(), by which a
// rank that waits is told from one that hangs, so it is short against the shortest such deadline.
// And a rank that comes is watched from the next sleep on.
constexpr std::chrono::milliseconds longest_sleep{50};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::uint32_t usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(CPU_COUNT(&set));
}

std::string join(const std::vector<rank_id>& ranks) {
  std::string text;
  for (rank_id rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank.value());
  return text;
}

// The first to come writes, the others compare.
template <class T>
bool agree(std::atomic<T>& word, T value) {
  T found = 0;
  return word.compare_exchange_strong(found, value) || found == value;
}

// Adds the lock of a peer to what wakes a sleeper; answers how many words that made. The lock of
// one that has not come is 0 and is not read: the kernel compares it, and wakes by its address.
std::size_t watch_lock(const rank_area& peer, awaited_word& word) {
  switch (peer.state.load(std::memory_order_acquire)) {
    case standing::absent:
      word = {&peer.lock.word(), 0};
      return 1;
    case standing::seated:
      word = {&peer.lock.word(), peer.lock.word().load(std::memory_order_acquire)};
      return 1;
    default:
      return 0;
  }
}

class counted_sleeper {
 public:
  explicit counted_sleeper(std::atomic<std::uint32_t>& sleepers) : sleepers_(sleepers) {
    sleepers_.fetch_add(1);
  }
  ~counted_sleeper() { sleepers_.fetch_sub(1); }
  counted_sleeper(const counted_sleeper&) = delete;
  counted_sleeper& operator=(const counted_sleeper&) = delete;

 private:
  std::atomic<std::uint32_t>& sleepers_;
};

}  // namespace

result<peers> peers::take_seat(sync_block block, generation_id generation, rank_id rank,
                               std::chrono::nanoseconds timeout) {
  block_header& header = block.header();
  if (!agree(header.generation, generation.value()) ||
      !agree(header.world_size, block.world_size())) {
    return fail(error_code::stale_generation,
                "the sync block belongs to generation " + std::to_string(header.generation.load()) +
                    " of " + std::to_string(header.world_size.load()) + " ranks, not to " +
                    std::to_string(generation.value()) + " of " +
                    std::to_string(block.world_size()) + "; each generation needs a fresh one");
  }
  rank_area& area = block.area(rank.value());
  standing expected = standing::absent;
  if (!area.state.compare_exchange_strong(expected, standing::arriving)) {
    return fail(error_code::busy, "rank " + std::to_string(rank.value()) +
                                      " has already joined this generation, each may only once");
  }
  if (auto taken = take(area.lock); !taken) return tl::unexpected(taken.error());
  area.state.store(standing::seated, std::memory_order_release);
  return peers{block, rank.value(), timeout};
}

peers::peers(sync_block block, std::uint32_t rank, std::chrono::nanoseconds timeout)
    : block_(block),
      rank_(rank),
      timeout_(timeout),
      may_spin_(block.world_size() <= usable_cpus()) {}

peers::peers(peers&& other) noexcept
    : block_(other.block_),
      rank_(other.rank_),
      timeout_(other.timeout_),
      may_spin_(other.may_spin_),
      seated_(std::exchange(other.seated_, false)),
      beat_(std::move(other.beat_)),
      failure_(std::move(other.failure_)) {}

peers::~peers() {
  if (!seated_) return;
  mine().state.store(standing::left, std::memory_order_release);
  mine().event.fetch_add(1);
  wake_all(mine().event);
  release(mine().lock);
}

void peers::publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  counter.store(value, std::memory_order_release);
  // Sequentially consistent on both sides: either the sleeper sees the new counter or we see it.
  mine().event.fetch_add(1);
  if (mine().sleepers.load() != 0) wake_all(mine().event);
}

result<void> peers::await(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                          std::uint64_t value) {
  if (failure_) return tl::unexpected(*failure_);
  look now = spin(peer, counter, value);
  if (now == look::reached) return {};
  const bool timed = timeout_.count() > 0;
  const steady_time deadline = timed ? steady_clock::now() + timeout_ : steady_time::max();
  while (now == look::waiting) {
    const steady_time time = steady_clock::now();
    if (time >= deadline) {
      return end_with({error_code::timeout,
                       "rank " + std::to_string(peer) + " did not come within the timeout of " +
                           std::to_string(timeout_.count() / 1000000) + " ms",
                       std::to_string(peer)});
    }
    if (beat_) beat_();
    now = sleep_once(peer, counter, value, std::min(deadline, time + longest_sleep));
  }
  if (now == look::reached) return {};
  return give_up(peer);
}

peers::look peers::look_at(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                           std::uint64_t value) const {
  const auto reached = [&] { return counter.load(std::memory_order_acquire) >= value; };
  if (reached()) return look::reached;
  const bool left = area(peer).state.load(std::memory_order_acquire) == standing::left;
  if (!left && !ended() && dead() == 0) return look::waiting;
  // Once more: it may have come before it went.
  return reached() ? look::reached : look::over;
}

peers::look peers::spin(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                        std::uint64_t value) const {
  look now = look_at(peer, counter, value);
  if (!may_spin_ || now != look::waiting) return now;
  const steady_time begun = steady_clock::now();
  steady_time time = begun;
  do {
    if (time - begun > yield_after) ::sched_yield();
    for (int i = 0; i < looks_between_clock_reads; ++i) {
      if (counter.load(std::memory_order_acquire) >= value) return look::reached;
      relax();
    }
    now = look_at(peer, counter, value);
    time = steady_clock::now();
  } while (now == look::waiting && time - begun < spin_time);
  return now;
}

void peers::await_end(const std::atomic<std::uint32_t>& stop) const {
  while (stop.load() == 0 && !ended() && can_sleep_on_several()) {
    std::array<awaited_word, max_world_size + 2> words;
    const std::size_t used = words_of_loss(words, stop);
    // After the words were read: who dies from here on changes one of them.
    if (dead() != 0) return end(ended_by_loss);
    sleep_on({words.data(), used}, steady_clock::now() + longest_sleep);
  }
}

peers::look peers::sleep_once(std::uint32_t peer, const std::atomic<std::uint64_t>& counter,
                              std::uint64_t value, steady_time until) const {
  const counted_sleeper counted{area(peer).sleepers};
  std::array<awaited_word, max_world_size + 2> words;
  const std::size_t used = words_of_loss(words, area(peer).event);
  // After the words were read: what changes from here on fails the sleep or wakes it.
  if (look now = look_at(peer, counter, value); now != look::waiting) return now;
  sleep_on({words.data(), used}, until);
  return look_at(peer, counter, value);
}

// What wakes a sleeper besides `first`, which must still have its value of now.
std::size_t peers::words_of_loss(std::span<awaited_word> words,
                                 const std::atomic<std::uint32_t>& first) const {
  std::size_t used = 0;
  words[used++] = {&first, first.load()};
  words[used++] = {&block_.header().ended, 0};
  for (std::uint32_t other = 0; other < world_size(); ++other) {
    if (other != rank_) used += watch_lock(area(other), words[used]);
  }
  return used;
}

tl::unexpected<error> peers::give_up(std::uint32_t peer) {
  if (dead() != 0) {
    end(ended_by_loss);
    const std::string ranks = join(lost());
    return end_with({error_code::peer_lost, "rank " + ranks + " died", ranks});
  }
  if (ended()) {
    return end_with(
        {error_code::aborted,
         "generation " + std::to_string(block_.header().generation.load()) + " was aborted",
         {}});
  }
  return end_with({error_code::aborted,
                   "rank " + std::to_string(peer) + " left the generation while it was needed",
                   std::to_string(peer)});
}

result<void> peers::check() {
  if (failure_) return tl::unexpected(*failure_);
  if (ended()) return give_up(rank_);
  return {};
}

bool peers::ended() const {
  return block_.header().ended.load(std::memory_order_acquire) != 0;
}

tl::unexpected<error> peers::end_with(error why) {
  end(ended_by_abort);
  failure_ = why;
  return tl::unexpected(std::move(why));
}

void peers::end(std::uint32_t reason) const noexcept {
  block_header& header = block_.header();
  header.lost.fetch_or(dead());
  if ((header.ended.fetch_or(reason) & reason) == 0) wake_all(header.ended);
}

std::uint64_t peers::dead() const {
  std::uint64_t ranks = 0;
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    const bool seated = area(rank).state.load(std::memory_order_acquire) == standing::seated;
    if (seated && area(rank).lock.owner_died()) ranks |= std::uint64_t{1} << rank;
  }
  return ranks;
}

std::vector<rank_id> peers::lost() const {
  const std::uint64_t bits = dead() | block_.header().lost.load(std::memory_order_acquire);
  std::vector<rank_id> ranks;
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    if ((bits >> rank & 1) != 0) ranks.push_back(rank_id{rank});
  }
  return ranks;
}

}  // namespace ftrt::shm
