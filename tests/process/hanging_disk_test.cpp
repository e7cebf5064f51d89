// A disk that hangs: what a run still does, and what it does as soon as the disk is back.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <schemas/unique_fd.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>

#include "tests/process/stopped_run.hpp"

namespace ftrt::test {
namespace {

class hanging_disk : public stopped_run {
 protected:
  // The storage thread stops at a pipe that nobody reads, in the place of a worker's log.
  void hang() {
    log_ = only_run(folder_.path()) / "worker-logs" / "rank-0.log";
    std::filesystem::remove(log_);
    ASSERT_EQ(::mkfifo(log_.c_str(), 0600), 0);
    const unique_fd standard_error{
        ::open(("/proc/" + std::to_string(workers_[0]) + "/fd/2").c_str(), O_WRONLY | O_CLOEXEC)};
    ASSERT_TRUE(standard_error.valid());
    ASSERT_EQ(::write(standard_error.get(), "words\n", 6), 6);
  }

  void go_on() {
    reader_ = unique_fd{::open(log_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    ASSERT_TRUE(reader_.valid());
    std::filesystem::remove(log_);  // what else is written goes to a file again
  }

  [[nodiscard]] bool both_are_at(std::uint64_t iteration) const {
    return committed(0) >= iteration && committed(1) >= iteration;
  }

  // Iterations of the snapshots that control holds of a rank.
  [[nodiscard]] std::set<std::uint64_t> held(std::size_t rank) const {
    const auto memory = memory_of(workers_[rank], "ftrt-snapshots");
    std::set<std::uint64_t> found;
    constexpr std::size_t page = 4096;
    const auto arena_bytes = (memory.size() - page) / storage::snapshot_slots;
    for (const auto& each : storage::list_whole(memory, arena_bytes)) {
      if (each.held) found.insert(each.header.iteration.value());
    }
    return found;
  }

  // A rank's newest commit, whichever worker it is by now.
  [[nodiscard]] std::uint64_t committed_by_a_successor(std::uint32_t rank) const {
    const auto worker = process_->worker_of(rank);
    if (!worker || *worker == workers_[rank]) return 0;
    const auto memory = memory_of(*worker, "ftrt-progress");
    return memory.valid() ? storage::progress_reader{memory}.view().committed.value() : 0;
  }

  static constexpr std::chrono::seconds patience{60 * slowness};
  std::filesystem::path log_;
  unique_fd reader_;
};

std::string checkpoint_of(std::uint64_t iteration) {
  return "checkpoint:" + std::to_string(iteration);
}

// Steps of a millisecond or two would have overwritten everything long before the disk came to it.
TEST_F(hanging_disk, keeps_nobody_waiting_and_loses_no_checkpoint_that_was_held_for_it) {
  hang();
  for (const auto worker : workers_) ::kill(worker, SIGCONT);
  ASSERT_TRUE(eventually([&] { return both_are_at(newest_ + 6 * apart); }, patience));
  ASSERT_TRUE(eventually([&] { return held(0).size() == 2 && held(0) == held(1); }, patience));
  const auto waiting = held(0);
  const auto far = *waiting.rbegin() + 10 * apart;
  ASSERT_TRUE(eventually([&] { return both_are_at(far); }, patience))
      << "no step waits for the disk";
  EXPECT_EQ(held(0), waiting);
  EXPECT_EQ(held(1), waiting);
  go_on();
  const auto done = finish();
  const auto committed = events("checkpoint_committed");
  for (const auto iteration : waiting) EXPECT_TRUE(committed.contains(checkpoint_of(iteration)));
  EXPECT_TRUE(committed.contains(checkpoint_of(done.summary["iterations"]))) << "the last one";
  const auto dropped = events("checkpoint_dropped");
  EXPECT_GE(dropped.size(), 6U) << "those that it had no time for are told of";
  EXPECT_EQ(done.out.find("checkpoint_dropped"), std::string::npos) << "but not one by one";
  EXPECT_NE((done.out + done.err).find("the disk is slower than"), std::string::npos) << done.out;
  expect_fault_free(done);
}

TEST_F(hanging_disk, keeps_no_rank_that_was_killed_from_coming_back_out_of_memory) {
  hang();
  kill_workers();
  for (const std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(
        eventually([&] { return committed_by_a_successor(rank) > newest_ + apart; }, patience))
        << "the disk still hangs";
  }
  go_on();
  const auto done = finish();
  ASSERT_EQ(done.summary["recoveries"].size(), 2U) << done.summary.dump(2);
  for (const auto& recovery : done.summary["recoveries"]) {
    EXPECT_EQ(recovery["source"], "snapshot:" + std::to_string(newest_));
  }
  expect_fault_free(done);
}

// The workers went on, and overwrote what nobody looked at.
TEST_F(hanging_disk, is_not_blamed_by_a_process_that_was_stopped_itself) {
  process_->signal(SIGSTOP);
  for (const auto worker : workers_) ::kill(worker, SIGCONT);
  const bool went_on = eventually([&] { return both_are_at(newest_ + 40 * apart); }, patience);
  process_->signal(SIGCONT);
  ASSERT_TRUE(went_on);
  const auto done = finish();
  EXPECT_FALSE(events("checkpoint_dropped").empty());
  EXPECT_NE((done.out + done.err).find(", which stood still for "), std::string::npos)
      << done.out << done.err;
}

}  // namespace
}  // namespace ftrt::test
