#include <signal.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <runtime/training/injury.hpp>
#include <schemas/random.hpp>
#include <utility>

namespace ftrt::training {
namespace {

// Parameter elements in layout order: number -> place in the flat range; gaps are none.
class elements {
 public:
  explicit elements(const state_layout& layout) : layout_(layout) {
    for (const auto& tensor : layout.tensors) count_ += count_of(tensor);
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::size_t place(std::uint64_t number) const {
    for (const auto& tensor : layout_.tensors) {
      const auto here = count_of(tensor);
      if (number < here) return tensor.offset_bytes / sizeof(float) + number;
      number -= here;
    }
    return 0;
  }

 private:
  static std::uint64_t count_of(const tensor_spec& tensor) {
    return tensor.section == tensor_section::parameter ? tensor.size_bytes / sizeof(float) : 0;
  }

  const state_layout& layout_;
  std::uint64_t count_ = 0;
};

}  // namespace

injury_moment moment_of(const protocol::injure& what) {
  using protocol::injury_phase;
  switch (what.phase) {
    case injury_phase::none:
      break;
    case injury_phase::all_reduce:
      return injury_moment::all_reduce;
    case injury_phase::optimizer:
      return injury_moment::optimizer;
    case injury_phase::snapshot:
      return injury_moment::snapshot;
    case injury_phase::join:
      return injury_moment::join;
    case injury_phase::evaluate:
      return injury_moment::evaluate;
    case injury_phase::start:
      return injury_moment::start;
    case injury_phase::stop:
      return injury_moment::stop;
  }
  if (what.kind == protocol::injury_kind::slow) return injury_moment::begin;
  if (what.target == protocol::injury_target::parameter) return injury_moment::after_commit;
  return what.kind == protocol::injury_kind::nan ? injury_moment::before_backward
                                                 : injury_moment::before_apply;
}

void injury_box::add(const protocol::injure& what) {
  const std::lock_guard lock{mutex_};
  if (what.number != 0) {
    if (std::ranges::find(numbers_, what.number) != numbers_.end()) return;
    if (numbers_.size() == 4 * capacity) numbers_.pop_front();
    numbers_.push_back(what.number);
  }
  if (waiting_.size() == capacity) waiting_.pop_front();
  waiting_.push_back(what);
  any_.store(true, std::memory_order_release);
}

std::vector<protocol::injure> injury_box::take(iteration_id k, injury_moment moment) {
  std::vector<protocol::injure> due;
  if (!any_.load(std::memory_order_acquire)) return due;
  const std::lock_guard lock{mutex_};
  std::erase_if(waiting_, [&](const protocol::injure& what) {
    if (what.iteration > k || moment_of(what) != moment) return false;
    due.push_back(what);
    return true;
  });
  any_.store(!waiting_.empty(), std::memory_order_release);
  return due;
}

void slowness::begin(const protocol::injure& what, iteration_id k) {
  delay_ns_ = what.delay_ns;
  const auto most = std::numeric_limits<std::uint64_t>::max() - k.value();
  until_ =
      iteration_id{k.value() + (what.iterations == 0 ? most : std::min(what.iterations, most))};
}

void slowness::pause(iteration_id k) const {
  if (k >= until_) return;
  timespec left{static_cast<time_t>(delay_ns_ / 1'000'000'000U),
                static_cast<long>(delay_ns_ % 1'000'000'000U)};
  while (::nanosleep(&left, &left) != 0) {
  }
}

// To this very thread: what is sent to the process as a whole, another thread may take when it gets
// around to it, and meanwhile this one would leave its phase.
void strike(const protocol::injure& what) {
  ::raise(what.kind == protocol::injury_kind::kill ? SIGKILL : SIGSTOP);
}

void carry_out(const protocol::injure& what, const state_layout& layout, std::span<float> values) {
  const elements all{layout};
  if (all.count() == 0) return;
  const auto hash = data::hash_of(what.seed, what.iteration.value());
  auto place = all.place(hash % all.count());
  for (std::uint64_t i = 1; i < all.count() && values[place] == 0; ++i) {
    place = all.place((hash + i) % all.count());
  }
  if (what.kind == protocol::injury_kind::nan) {
    values[place] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const auto bit = 23 + static_cast<unsigned>((hash >> 32) % 7);
  values[place] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[place]) ^ (1U << bit));
}

bool is_poisoned(const std::vector<chaos_entry>& chaos, rank_id rank, iteration_id k) {
  return std::ranges::any_of(chaos, [&](const chaos_entry& entry) {
    return entry.kind == chaos_kind::poison && entry.at_iteration == k.value() &&
           (entry.all_ranks || std::ranges::count(entry.ranks, rank.value()) > 0);
  });
}

}  // namespace ftrt::training
