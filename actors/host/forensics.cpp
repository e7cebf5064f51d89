#include <actors/host/clock.hpp>
#include <actors/host/forensics.hpp>
#include <actors/host/log.hpp>
#include <algorithm>
#include <utility>

namespace ftrt::host {

forensics::forensics(const worker_host& host, storage_queue& storage,
                     std::filesystem::path run_directory, std::string run_id, std::uint32_t ranks)
    : host_(host),
      storage_(storage),
      run_directory_(std::move(run_directory)),
      run_id_(std::move(run_id)),
      ranks_(ranks) {}

void forensics::keep(generation_id generation, const std::string& reason) {
  const std::lock_guard lock{mutex_};
  if (generation <= newest_) return;
  newest_ = generation;
  if (kept_.size() == max_kept) kept_.pop_front();
  const auto at = monotonic_now() - as_seen_here(std::chrono::nanoseconds{0});  // as workers see it
  kept_.push_back({generation, reason, at, unix_now_ms(), look(), {}});
}

std::vector<forensics::seen_rank> forensics::look() const {
  const auto records = storage::records_to_keep(ranks_);
  std::vector<seen_rank> ranks;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const auto worker = host_.worker(rank_id{r});
    if (!worker) continue;
    ranks.push_back({worker->rank, worker->incarnation, worker->pid, !worker->dead,
                     storage::read_last_words(worker->progress, records)});
  }
  return ranks;
}

void forensics::add_loss(generation_id generation, rank_id rank, const std::string& cause) {
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find(kept_, generation, &kept::generation);
  if (found == kept_.end() || rank.value() >= ranks_) return;
  if (std::ranges::find(found->losses, rank, &loss::rank) != found->losses.end()) return;
  found->losses.push_back({rank, cause});
}

void forensics::write() {
  std::deque<kept> all;
  {
    const std::lock_guard lock{mutex_};
    all = std::exchange(kept_, {});
  }
  for (auto& one : all) {
    storage_.post(
        [what = std::move(one), folder = run_directory_, run_id = run_id_](storage::catalog&) {
          warn_of_failure("postmortem", storage::write_postmortem(folder, report_of(what, run_id)));
        });
  }
}

postmortem forensics::report_of(const kept& what, const std::string& run_id) {
  postmortem report;
  report.run_id = run_id;
  report.generation = what.generation.value();
  report.taken_ms = what.taken_ms;
  report.reason = what.reason;
  for (const auto& seen : what.ranks) {
    postmortem_rank rank;
    rank.rank = seen.rank.value();
    rank.incarnation = seen.incarnation.value();
    rank.pid = seen.pid;
    rank.alive = seen.alive;
    storage::describe_last_words(rank, seen.words, what.generation, what.at);
    const auto loss = std::ranges::find(what.losses, seen.rank, &loss::rank);
    rank.lost = loss != what.losses.end();
    if (rank.lost) rank.cause = loss->cause;
    report.ranks.push_back(std::move(rank));
  }
  for (const auto& loss : what.losses) report.culprits.push_back(loss.rank.value());
  storage::find_missing(report);
  return report;
}

}  // namespace ftrt::host
