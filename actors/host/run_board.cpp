#include <actors/host/run_board.hpp>
#include <algorithm>
#include <limits>
#include <utility>

namespace ftrt::host {
namespace {

// A rollback past more than so many of them finds the rest in the catalog.
constexpr std::size_t most_checkpoints = 1024;

}  // namespace

run_board::run_board(std::string run_id, std::uint32_t world_size, std::uint64_t total_iterations,
                     std::uint64_t iterations_per_epoch)
    : iterations_per_epoch_(std::max<std::uint64_t>(iterations_per_epoch, 1)) {
  summary_.run_id = std::move(run_id);
  summary_.world_size = world_size;
  latest_.world_size = world_size;
  latest_.total_iterations = total_iterations;
  latest_.test_accuracy = summary_.test_accuracy;
}

void run_board::begin_at(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  counted_ = summary_.iterations = latest_.iteration = iteration.value();
}

void run_board::add_left_out(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  auto& all = summary_.left_out;
  const auto place = std::ranges::lower_bound(all, iteration.value());
  if (place == all.end() || *place != iteration.value()) all.insert(place, iteration.value());
}

std::vector<iteration_id> run_board::left_out() const {
  const std::lock_guard lock{mutex_};
  std::vector<iteration_id> all;
  for (const auto iteration : summary_.left_out) all.emplace_back(iteration);
  return all;
}

void run_board::set_membership(membership now) {
  const std::lock_guard lock{mutex_};
  if (now.branch != membership_.branch) branches_.push_back({now.branch, now.from});
  membership_ = now;
  if (const auto before = std::exchange(died_at_, std::nullopt)) {
    most_lost_ = *before > now.from.value() ? *before - now.from.value() : 0;
  }
  summary_.generations = now.generation.value();
  latest_.generation = now.generation.value();
}

void run_board::died_at(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  died_at_ = iteration.value();
}

run_board::membership run_board::current() const {
  const std::lock_guard lock{mutex_};
  return membership_;
}

bool run_board::count(const storage::progress_record& record) {
  const std::lock_guard lock{mutex_};
  // A damaged ring must not move the run to an iteration that does not exist.
  if (latest_.total_iterations > 0 && record.iteration > latest_.total_iterations) return false;
  if (record.generation < oldest_generation_ && record.iteration > rolled_back_to_) return false;
  if (record.kind == storage::record_kind::digest) return false;
  if (record.kind == storage::record_kind::evaluation) {
    if (record.iteration <= evaluated_) return false;
    evaluated_ = record.iteration;
    summary_.test_accuracy = latest_.test_accuracy = record.accuracy;
    return true;
  }
  if (record.iteration <= counted_) return false;
  if (!first_begun_ns_) first_begun_ns_ = record.committed_ns - record.step_ns;
  last_committed_ns_ = record.committed_ns;
  counted_ = summary_.iterations = record.iteration;
  summary_.optimizer_steps = record.optimizer_step;
  summary_.train_loss = record.loss;
  ++executed_;
  ++committed_;
  samples_ += record.samples;
  latest_.iteration = record.iteration;
  latest_.train_loss = record.loss;
  latest_.epoch =
      static_cast<double>(record.iteration) / static_cast<double>(iterations_per_epoch_);
  return true;
}

void run_board::roll_back_to(iteration_id iteration, generation_id generation,
                             iteration_id reached) {
  const std::lock_guard lock{mutex_};
  ++rollbacks_;
  oldest_generation_ = generation.value();
  rolled_back_to_ = iteration.value();
  evaluated_ = std::min(evaluated_, iteration.value());
  checkpoints_.erase(checkpoints_.upper_bound(iteration.value()), checkpoints_.end());
  agreed_ = std::min(agreed_, iteration);
  // Commits of which no record was read before they became void.
  const auto most = latest_.total_iterations > 0 ? latest_.total_iterations : reached.value();
  const auto executed_to = std::min(reached.value(), most);
  const auto read_later = std::max(counted_, iteration.value());
  if (executed_to > read_later) executed_ += executed_to - read_later;
  const auto newest = std::max(executed_to, counted_);
  if (newest > iteration.value()) most_lost_ = std::max(most_lost_, newest - iteration.value());
  if (iteration.value() >= counted_) return;
  committed_ -= std::min(committed_, counted_ - iteration.value());
  counted_ = summary_.iterations = latest_.iteration = iteration.value();
}

std::uint64_t run_board::most_lost() const {
  const std::lock_guard lock{mutex_};
  auto most = most_lost_;
  for (const auto& each : summary_.recoveries) most = std::max(most, each.lost_iterations);
  return most;
}

std::uint64_t run_board::rollbacks() const {
  const std::lock_guard lock{mutex_};
  return rollbacks_;
}

void run_board::count_redone() {
  const std::lock_guard lock{mutex_};
  ++executed_;
}

void run_board::add(recovery_record recovery) {
  const std::lock_guard lock{mutex_};
  summary_.recoveries.push_back(std::move(recovery));
}

void run_board::add(actor_restart_record restart) {
  const std::lock_guard lock{mutex_};
  summary_.actor_restarts.push_back(std::move(restart));
}

double run_board::last_checkpoint_ms() const {
  const std::lock_guard lock{mutex_};
  return last_checkpoint_ms_;
}

std::uint64_t run_board::last_checkpoint_iteration() const {
  const std::lock_guard lock{mutex_};
  return last_checkpoint();
}

bool run_board::is_history(branch_id branch, iteration_id iteration) const {
  const std::lock_guard lock{mutex_};
  return is_history_locked(branch, iteration);
}

bool run_board::is_history_locked(branch_id branch, iteration_id iteration) const {
  for (const auto& each : branches_)
    if (each.opened > branch && iteration > each.from) return false;
  return true;
}

void run_board::set_checkpoint(branch_id branch, iteration_id iteration, double ms) {
  const std::lock_guard lock{mutex_};
  last_checkpoint_ms_ = ms;
  ++summary_.checkpoints_committed;
  if (!is_history_locked(branch, iteration)) return;
  // Not in order where a new checkpoint actor finds several that nobody has written yet.
  checkpoints_.insert(iteration.value());
  if (checkpoints_.size() > most_checkpoints) checkpoints_.erase(checkpoints_.begin());
}

std::uint64_t run_board::last_checkpoint() const {
  return checkpoints_.empty() ? 0 : *checkpoints_.rbegin();
}

void run_board::set_agreed(iteration_id iteration) {
  const std::lock_guard lock{mutex_};
  agreed_ = std::max(agreed_, iteration);
}

iteration_id run_board::agreed() const {
  const std::lock_guard lock{mutex_};
  return agreed_;
}

void run_board::set_disputed(std::optional<iteration_id> not_beyond) {
  const std::lock_guard lock{mutex_};
  disputed_ = not_beyond;
}

std::optional<iteration_id> run_board::disputed() const {
  const std::lock_guard lock{mutex_};
  return disputed_;
}

void run_board::set_ranks_alive(std::uint32_t ranks) {
  const std::lock_guard lock{mutex_};
  latest_.ranks_alive = ranks;
}

void run_board::set_finished(const protocol::finished& report) {
  const std::lock_guard lock{mutex_};
  summary_.iterations = latest_.iteration = report.iteration.value();
  summary_.optimizer_steps = report.optimizer_steps;
  summary_.train_loss = report.train_loss;
  summary_.test_accuracy = latest_.test_accuracy = report.test_accuracy;
  summary_.weights_digest = report.weights_digest;
}

void run_board::set_phase(std::string_view phase) {
  const std::lock_guard lock{mutex_};
  phase_ = phase;
}

std::string run_board::phase() const {
  const std::lock_guard lock{mutex_};
  return phase_;
}

void run_board::set_speed(speeds now) {
  const std::lock_guard lock{mutex_};
  speed_ = std::move(now);
}

run_board::speeds run_board::speed() const {
  const std::lock_guard lock{mutex_};
  return speed_;
}

void run_board::request_stop(std::string reason) {
  const std::lock_guard lock{mutex_};
  if (!stop_reason_) stop_reason_ = std::move(reason);
}

std::optional<std::string> run_board::stop_reason() const {
  const std::lock_guard lock{mutex_};
  return stop_reason_;
}

double run_board::samples_per_second() const {
  const auto elapsed_ns = last_committed_ns_ - first_begun_ns_.value_or(last_committed_ns_);
  return elapsed_ns > 0 ? static_cast<double>(samples_) * 1e9 / static_cast<double>(elapsed_ns) : 0;
}

progress run_board::latest() const {
  const std::lock_guard lock{mutex_};
  auto now = latest_;
  now.samples_per_second = samples_per_second();
  if (committed_ > 0 && first_begun_ns_ && now.total_iterations > now.iteration) {
    const auto elapsed_s = static_cast<double>(last_committed_ns_ - *first_begun_ns_) / 1e9;
    now.eta_seconds = elapsed_s / static_cast<double>(committed_) *
                      static_cast<double>(now.total_iterations - now.iteration);
  }
  return now;
}

std::uint64_t run_board::last_iteration() const {
  const std::lock_guard lock{mutex_};
  return summary_.iterations;
}

run_summary run_board::summary() const {
  const std::lock_guard lock{mutex_};
  auto made = summary_;
  made.last_checkpoint_iteration = last_checkpoint();
  made.epochs = static_cast<double>(made.iterations) / static_cast<double>(iterations_per_epoch_);
  if (executed_ > 0) {
    made.samples_per_second = samples_per_second();
    made.goodput = static_cast<double>(committed_) / static_cast<double>(executed_);
  }
  return made;
}

}  // namespace ftrt::host
