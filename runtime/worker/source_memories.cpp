#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <runtime/worker/log.hpp>
#include <runtime/worker/source_memories.hpp>
#include <system_error>
#include <utility>

namespace ftrt::worker {
namespace {

using storage::shared_memory;
using clock = std::chrono::steady_clock;

constexpr std::size_t slice_bytes = std::size_t{2} << 20;
constexpr int rest_per_work = 20;
constexpr std::chrono::seconds after_the_join{1};
constexpr std::chrono::milliseconds between_looks{50};

// Memfds lie in one file system of the kernel's, which gives no number twice to files that exist.
bool is_same_file(int left, int right) {
  struct stat one {};
  struct stat other {};
  return ::fstat(left, &one) == 0 && ::fstat(right, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

// False: it was told to stop.
bool rest(const std::stop_token& stop, clock::duration time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock{mutex};
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// `work_off` does one slice and says whether that was the last one. False: it was told to stop.
template <class Slice>
bool in_slices(const std::stop_token& stop, Slice work_off) {
  while (!stop.stop_requested()) {
    const auto begin = clock::now();
    if (work_off()) return true;
    if (!rest(stop, rest_per_work * (clock::now() - begin))) return false;
  }
  return false;
}

}  // namespace

result<void> source_memories::expect(std::vector<unique_fd> descriptors) {
  std::vector<memory_ptr> now;
  for (auto& file : descriptors) {
    if (auto known = find_expected(file)) {
      now.push_back(std::move(known));
      continue;
    }
    auto mapped =
        shared_memory::map(std::move(file), size_bytes_, shared_memory::access::read_only);
    if (!mapped) return tl::unexpected(std::move(mapped.error()));
    now.push_back(std::make_shared<shared_memory>(std::move(*mapped)));
  }
  stop_touching();
  const std::lock_guard lock{mutex_};  // who gives back waits for what follows
  auto started = start([this, now](const std::stop_token& stop) {
    touch(stop, now);
    give_back(stop);
  });
  if (!started) return started;
  std::ranges::copy_if(expected_, std::back_inserter(retired_), [&](const memory_ptr& memory) {
    return std::ranges::find(now, memory) == now.end();
  });
  expected_ = std::move(now);
  return {};
}

std::shared_ptr<const shared_memory> source_memories::find(const unique_fd& file) const {
  return find_expected(file);
}

source_memories::memory_ptr source_memories::find_expected(const unique_fd& file) const {
  const auto found = std::ranges::find_if(expected_, [&](const memory_ptr& memory) {
    return is_same_file(memory->fd().get(), file.get());
  });
  return found == expected_.end() ? nullptr : *found;
}

void source_memories::give_back_later() {
  if (expected_.empty()) return;
  stop_touching();
  {
    const std::lock_guard lock{mutex_};
    std::ranges::move(expected_, std::back_inserter(retired_));
  }
  expected_.clear();
  const auto started = start([this](const std::stop_token& stop) {
    if (rest(stop, after_the_join)) give_back(stop);
  });
  if (!started) say("the memories of other ranks stay mapped: " + started.error().describe());
}

template <class Work>
result<void> source_memories::start(Work work) {
  try {
    thread_ = std::jthread{std::move(work)};
  } catch (const std::system_error& e) {
    return fail_errno("cannot start a thread", e.code().value());
  }
  ::pthread_setname_np(thread_.native_handle(), "ftrt-sources");
  return {};
}

// ---- on the thread -----------------------------------------------------------------------------

void source_memories::touch(const std::stop_token& stop,
                            const std::vector<memory_ptr>& memories) const {
  for (const auto& memory : memories) {
    if (memory->touched()) continue;
    const bool done = in_slices(stop, [&] {
      const auto left = memory->touch(slice_bytes);
      if (!left) say("another rank's memory stays untouched: " + left.error().describe());
      return !left || *left == 0;
    });
    if (!done) return;
  }
}

// Stopped in the midst of it, a memory stays for the next time, or for the destructor.
void source_memories::give_back(const std::stop_token& stop) {
  while (const auto memory = next_retired()) {
    // One holder is the list, one is here. Whoever still copies from it is not to be the one who
    // unmaps it.
    while (memory.use_count() > 2) {
      if (!rest(stop, between_looks)) return;
    }
    if (!in_slices(stop, [&] { return memory->let_go(slice_bytes) == 0; })) return;
    const std::lock_guard lock{mutex_};
    std::erase(retired_, memory);
  }
}

source_memories::memory_ptr source_memories::next_retired() {
  const std::lock_guard lock{mutex_};
  return retired_.empty() ? nullptr : retired_.front();
}

}  // namespace ftrt::worker
