#include <actors/control/handlers.hpp>
#include <actors/host/clock.hpp>
#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <tests/actors/control/imitated_workers.hpp>
#include <tests/actors/control/snapshot_memory.hpp>

namespace ftrt::actors::testing {
namespace {

using protocol::worker_phase;

// Beyond what the kernel gives to processes.
constexpr pid_t first_pid = 1'000'000'000;

struct trainer_state {
  static constexpr const char* name = "trainer";
};

trainer_actor::behavior_type trainer_behavior(trainer_actor::stateful_pointer<trainer_state> self,
                                              imitated_workers* workers, rank_id rank,
                                              incarnation_id incarnation) {
  install_default_handlers(self, "trainer");
  const auto look = [=] {
    const auto worker = workers->worker(rank, incarnation);
    if (!worker || worker->dead) self->quit(make_error(trainer_exit::worker_lost));
  };
  workers->connected(rank, incarnation);
  return {
      [=](const tell_worker& what) { workers->hear(rank, incarnation, what.message); },
      [=](const worker_exited&) { look(); },
      [](tick) {},
      [](read_on) {},
  };
}

}  // namespace

imitated_workers::imitated_workers(std::uint64_t total_iterations) {
  program_.layout = two_tensors();
  program_.iterations_per_epoch = total_iterations;
  program_.total_iterations = total_iterations;
}

trainer_actor imitated_workers::make_trainer(caf::actor_system& system, const run_context& context,
                                             rank_id rank, incarnation_id incarnation,
                                             unique_fd /*socket*/) {
  return system.spawn(trainer_behavior, &dynamic_cast<imitated_workers&>(*context.host), rank,
                      incarnation);
}

// ---- what a test does to them -------------------------------------------------------------------

void imitated_workers::die(rank_id rank, const std::string& cause) {
  const body* of = newest(rank);
  if (of == nullptr || of->entry->dead) return;
  of->entry->injected = true;
  pending.emplace_back(
      [this, rank, who = of->entry->incarnation, cause] { bury(rank, who, cause); });
}

void imitated_workers::silence(rank_id rank, word at, bool all) {
  if (all) always_silent_[rank] = at;
  if (body* of = newest(rank)) of->silent_at = at;
}

void imitated_workers::refuse_to_start(rank_id rank, bool refuse) {
  if (refuse) refusing_.insert(rank);
  if (!refuse) refusing_.erase(rank);
}

// ---- worker_host --------------------------------------------------------------------------------

void imitated_workers::spawn_worker(rank_id rank, incarnation_id incarnation) {
  if (incarnation <= ordered_[rank]) return;
  ordered_[rank] = incarnation;
  orders_.push_back({rank, incarnation, host::monotonic_now()});
  if (refusing_.contains(rank)) {
    pending.emplace_back([this, rank, incarnation] {
      context_->post<host_supervisor_actor>(worker_start_failed{rank, incarnation, "no memory"});
    });
    return;
  }
  make_body(rank, incarnation);
  pending.emplace_back([this, rank, incarnation] {
    context_->post<host_supervisor_actor>(worker_started{rank, incarnation});
  });
}

void imitated_workers::make_body(rank_id rank, incarnation_id incarnation) {
  body made;
  made.entry = std::make_shared<host::worker_entry>();
  made.entry->rank = rank;
  made.entry->incarnation = incarnation;
  made.entry->pid = first_pid + static_cast<pid_t>(orders_.size());
  made.entry->progress =
      storage::shared_memory::create("progress", storage::progress_memory_bytes()).value();
  const auto arena = program_.layout.arena_bytes;
  made.entry->snapshots =
      storage::shared_memory::create("snapshots", storage::snapshot_memory_bytes(arena)).value();
  made.page.emplace(made.entry->progress);
  made.slots.emplace(made.entry->snapshots, arena);
  const auto silent = always_silent_.find(rank);
  if (silent != always_silent_.end()) made.silent_at = silent->second;
  bodies_.insert_or_assign({rank, incarnation}, std::move(made));
}

bool imitated_workers::kill_worker(rank_id rank, incarnation_id incarnation,
                                   const std::string& cause) {
  body* of = find(rank, incarnation);
  if (of == nullptr) return false;
  const std::string end = "killed by signal 9 (SIGKILL)";
  pending.emplace_back([this, rank, incarnation, text = cause.empty() ? end : cause + ": " + end] {
    bury(rank, incarnation, text);
  });
  return true;
}

bool imitated_workers::injure(rank_id rank, const std::string& cause) {
  const body* of = newest(rank);
  return of != nullptr && !of->entry->dead && kill_worker(rank, of->entry->incarnation, cause);
}

void imitated_workers::bury(rank_id rank, incarnation_id incarnation, const std::string& cause) {
  body* of = find(rank, incarnation);
  if (of == nullptr || of->entry->dead) return;
  of->entry->exit_cause = cause;
  of->entry->dead = true;
  context_->post<host_supervisor_actor>(worker_exited{rank, incarnation});
}

std::shared_ptr<const host::worker_entry> imitated_workers::worker(rank_id rank) const {
  const auto after = bodies_.upper_bound({rank, incarnation_id{~0U}});
  if (after == bodies_.begin()) return nullptr;
  const auto& entry = std::prev(after)->second.entry;
  return entry->rank == rank ? entry : nullptr;
}

std::shared_ptr<const host::worker_entry> imitated_workers::worker(
    rank_id rank, incarnation_id incarnation) const {
  const auto found = bodies_.find({rank, incarnation});
  return found == bodies_.end() ? nullptr : found->second.entry;
}

incarnation_id imitated_workers::newest_incarnation(rank_id rank) const {
  const auto found = ordered_.find(rank);
  return found == ordered_.end() ? incarnation_id{} : found->second;
}

std::vector<std::shared_ptr<const host::worker_entry>> imitated_workers::workers() const {
  std::vector<std::shared_ptr<const host::worker_entry>> all;
  for (const auto& [id, of] : bodies_) all.push_back(of.entry);
  return all;
}

std::uint32_t imitated_workers::alive() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      bodies_, [](const auto& item) { return !item.second.entry->dead.load(); }));
}

result<unique_fd> imitated_workers::open_control_socket(rank_id rank, incarnation_id incarnation) {
  const body* of = find(rank, incarnation);
  if (of == nullptr || of->entry->dead) return fail(error_code::peer_lost, "its worker is gone");
  return unique_fd{};
}

result<void> imitated_workers::send_joins(const std::vector<protocol::join>& joins) {
  for (const auto& join : joins) {
    pending.emplace_back([this, join] {
      body* of = newest(join.rank);
      if (of != nullptr && !of->entry->dead) enter(*of, join);
    });
  }
  return {};
}

// ---- what they do -------------------------------------------------------------------------------

imitated_workers::body* imitated_workers::find(rank_id rank, incarnation_id incarnation) {
  const auto found = bodies_.find({rank, incarnation});
  return found == bodies_.end() ? nullptr : &found->second;
}

imitated_workers::body* imitated_workers::newest(rank_id rank) {
  const auto entry = worker(rank);
  return entry ? find(rank, entry->incarnation) : nullptr;
}

void imitated_workers::say(const body& of, word which, protocol::message message) {
  if (which != word::none && of.silent_at == which) return;
  pending.emplace_back([this, entry = of.entry, said = std::move(message)] {
    if (entry->dead) return;
    worker_message out{entry->rank, entry->incarnation, said};
    if (std::holds_alternative<protocol::snapshot_ready>(said)) {
      return context_->post<checkpoint_actor>(std::move(out));
    }
    context_->post<run_supervisor_actor>(std::move(out));
  });
}

void imitated_workers::connected(rank_id rank, incarnation_id incarnation) {
  if (body* of = find(rank, incarnation)) say_hello(*of);
}

void imitated_workers::say_hello(body& of) {
  protocol::hello hello;
  hello.rank = of.entry->rank;
  hello.incarnation = of.entry->incarnation;
  hello.pid = of.entry->pid;
  hello.generation = of.generation;
  hello.committed = of.committed;
  hello.phase = of.phase;
  hello.has_state = of.has_state;
  say(of, word::hello, hello);
  if (++of.hellos > 1 && of.report) say(of, word::finished, *of.report);
}

void imitated_workers::hear(rank_id rank, incarnation_id incarnation,
                            const protocol::message& message) {
  body* of = find(rank, incarnation);
  if (of == nullptr || of->entry->dead) return;
  if (std::holds_alternative<protocol::query>(message)) return say_hello(*of);
  if (std::holds_alternative<protocol::request_stop>(message)) of->stop = true;
  if (const auto* what = std::get_if<protocol::revoke>(&message)) {
    return revoke(*of, what->generation);
  }
  const auto* train = std::get_if<protocol::train>(&message);
  if (train == nullptr || of->phase != worker_phase::joined) return;
  if (train->generation != of->generation) return;
  of->phase = worker_phase::training;
  of->page->set_phase(storage::train_phase::compute);
  if (of->committed.value() >= program_.total_iterations) finish(*of);
}

void imitated_workers::revoke(body& of, generation_id generation) {
  of.revoked = std::max(of.revoked, generation);
  of.phase = worker_phase::parked;
  of.report.reset();
  of.page->set_phase(storage::train_phase::parked);
  say(of, word::parked, protocol::parked{generation, of.committed, {}, false, of.has_state});
}

void imitated_workers::enter(body& of, const protocol::join& join) {
  if (join.generation <= of.revoked) return;
  of.generation = join.generation;
  of.branch = join.branch;
  of.page->set_generation(join.generation);
  of.page->set_phase(storage::train_phase::joining);
  of.phase = worker_phase::joining;
  if (join.iteration.value() < committed_) lost_state_ = true;
  if (join.role != protocol::state_role::keep) {
    of.committed = join.iteration;
    of.page->reset_committed(join.iteration);
  }
  if (of.silent_at == word::joined) return;
  of.has_state = true;
  of.phase = worker_phase::joined;
  say(of, word::joined,
      protocol::joined{join.generation, of.committed,
                       "state of " + std::to_string(of.committed.value())});
}

void imitated_workers::work() {
  if (host::monotonic_now() < next_commit_) return;
  std::vector<body*> group;
  for (const auto& [rank, incarnation] : ordered_) group.push_back(newest(rank));
  const bool all_train = std::ranges::all_of(group, [&](const body* of) {
    return of != nullptr && !of->entry->dead && of->phase == worker_phase::training &&
           !of->report && of->generation == group.front()->generation &&
           of->silent_at != word::commit && of->committed == group.front()->committed;
  });
  if (!all_train || group.empty()) return;
  next_commit_ = host::monotonic_now() + step;
  const auto iteration = group.front()->committed.next();
  const bool stop = std::ranges::any_of(group, [](const body* of) { return of->stop; });
  for (body* of : group) {
    of->stop = stop;
    commit(*of, iteration);
  }
}

void imitated_workers::commit(body& of, iteration_id iteration) {
  of.page->begin_iteration(iteration);
  of.page->commit(iteration);
  of.page->set_phase(storage::train_phase::compute);
  of.committed = iteration;
  committed_ = std::max(committed_, iteration.value());
  storage::progress_record record;
  record.generation = of.generation.value();
  record.iteration = iteration.value();
  record.optimizer_step = iteration.value();
  record.samples = 64;
  if (compute) record.compute_ns = compute(of.entry->rank, of.entry->incarnation).count();
  record.committed_ns = host::monotonic_now().count();
  of.page->append(record);
  if (of.stop || iteration.value() >= program_.total_iterations) return finish(of);
  const auto every = context_->values.checkpoint.every_iterations;
  if (every > 0 && iteration.value() % every == 0) write_snapshot(of, false);
}

void imitated_workers::finish(body& of) {
  write_snapshot(of, true);
  of.phase = worker_phase::finished;
  of.page->set_phase(storage::train_phase::finished);
  protocol::finished report;
  report.generation = of.generation;
  report.iteration = of.committed;
  report.optimizer_steps = of.committed.value();
  report.stopped = of.committed.value() < program_.total_iterations;
  report.weights_digest = "weights of " + std::to_string(of.committed.value());
  of.report = report;
  say(of, word::finished, report);
}

void imitated_workers::write_snapshot(body& of, bool final) {
  const auto ranks = context_->values.cluster.ranks;
  const auto part = of.entry->rank.value();
  const auto range = part_of(program_.layout, part, ranks);
  storage::snapshot_header header;
  header.generation = of.generation;
  header.branch = of.branch;
  header.iteration = of.committed;
  header.part = part;
  header.parts = ranks;
  header.begin_bytes = range.begin_bytes;
  const std::vector<std::byte> content(range.end_bytes - range.begin_bytes);
  const auto slot = of.slots->write(header, content);
  if (!slot) return;
  say(of, word::none,
      protocol::snapshot_ready{of.generation, of.branch, of.committed, *slot, part, ranks, final});
}

}  // namespace ftrt::actors::testing
