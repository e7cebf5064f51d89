#pragma once

#include <actors/host/storage_queue.hpp>
#include <actors/host/worker_host.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <ftrt/types.hpp>
#include <mutex>
#include <storage/postmortem.hpp>
#include <string>
#include <vector>

namespace ftrt::host {

// Keeps what the ranks of a generation were doing when it ended: their progress memories die with
// this process, and their pages change as soon as the survivors are told. Outside all actors, so
// that what was kept outlives the one that kept it. Any thread; bounded.
//
// keep() copies words, some microseconds a rank, in the middle of a recovery; nothing is written
// before write(), which is called when the recovery is over and leaves the rest to the storage
// thread.
class forensics {
 public:
  forensics(const worker_host& host, storage_queue& storage, std::filesystem::path run_directory,
            std::string run_id, std::uint32_t ranks);

  // This generation ends. The first word about one counts: later the ranks do something else.
  void keep(generation_id generation, const std::string& reason);
  // A rank was lost, of a generation that was kept and is not written yet.
  void add_loss(generation_id generation, rank_id rank, const std::string& cause);
  // Has all that was kept written.
  void write();

 private:
  struct seen_rank {
    rank_id rank;
    incarnation_id incarnation;
    std::int32_t pid = 0;
    bool alive = false;
    storage::last_words words;
  };
  struct loss {
    rank_id rank;
    std::string cause;
  };
  struct kept {
    generation_id generation;
    std::string reason;
    std::chrono::nanoseconds at{};
    std::int64_t taken_ms = 0;
    std::vector<seen_rank> ranks;
    std::vector<loss> losses;
  };
  static constexpr std::size_t max_kept = 8;

  [[nodiscard]] std::vector<seen_rank> look() const;
  [[nodiscard]] static postmortem report_of(const kept& what, const std::string& run_id);

  const worker_host& host_;
  storage_queue& storage_;
  std::filesystem::path run_directory_;
  std::string run_id_;
  std::uint32_t ranks_;

  std::mutex mutex_;
  generation_id newest_;  // that was kept
  std::deque<kept> kept_;
};

}  // namespace ftrt::host
