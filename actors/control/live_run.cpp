#include <actors/control/chaos_orders.hpp>
#include <actors/control/host_supervisor.hpp>
#include <actors/control/live_run.hpp>
#include <actors/control/status_report.hpp>
#include <actors/control/take_down.hpp>
#include <actors/control/trainer.hpp>
#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/scoped_actor.hpp>
#include <fstream>
#include <storage/status_file.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

// Control has little to compute; the trainers' cores are not its own.
constexpr std::size_t scheduler_threads = 2;
// No handler blocks, so an actor that takes so long to end is a bug that must not hang the end.
constexpr std::chrono::seconds actor_patience{5};
constexpr std::chrono::seconds job_patience{5};  // looks up once for each state that it reads
constexpr std::chrono::seconds storage_patience{60};
// Of the actor at the root, in one run. It decides nothing, so each death is a bug.
constexpr std::uint32_t max_root_deaths = 100;

std::string status_of(const recovery::end_run& how) {
  switch (how.outcome) {
    case recovery::run_outcome::completed:
      return "completed";
    case recovery::run_outcome::stopped:
      return "stopped";
    case recovery::run_outcome::failed:
      return "failed";
  }
  return "failed";
}

caf::actor_system_config configuration() {
  caf::actor_system_config config;
  configure_for_trainers(config);
  config.set("scheduler.max-threads", scheduler_threads);
  // Threads of the default policy look for work 20,000 times a second for as long as there was some
  // a moment ago, on cores that are not theirs; these sleep until there is.
  config.set("scheduler.policy", caf::atom("sharing"));
  return config;
}

}  // namespace

class live_run::host_news final : public host::host_listener {
 public:
  explicit host_news(const run_context& context) : context_(context) {}
  void worker_started(rank_id rank, incarnation_id incarnation) override {
    context_.post<host_supervisor_actor>(actors::worker_started{rank, incarnation});
  }
  void worker_start_failed(rank_id rank, incarnation_id incarnation,
                           const std::string& text) override {
    context_.post<host_supervisor_actor>(actors::worker_start_failed{rank, incarnation, text});
  }
  void worker_exited(rank_id rank, incarnation_id incarnation) override {
    context_.post<host_supervisor_actor>(actors::worker_exited{rank, incarnation});
  }
  void worker_wrote(rank_id rank, const std::string& text) override {
    const auto file =
        context_.directory->worker_logs() / ("rank-" + std::to_string(rank.value()) + ".log");
    context_.storage->post([file, text](storage::catalog&) {
      std::ofstream{file, std::ios::app} << text;
    });
  }
  void zygote_replaced(const std::string& text) override {
    context_.record(event::kind::warning, "zygote", text);
  }

 private:
  const run_context& context_;
};

tl::expected<std::unique_ptr<run>, start_error> live_run::begin(prepared_run prepared,
                                                                const run_options& options) {
  const auto failed = [](error why) { return tl::unexpected(start_error{{}, std::move(why)}); };
  if (auto begun = prepared.catalog.begin_run(prepared.directory.id(), prepared.values.run.name,
                                              host::unix_now_ms());
      !begun) {
    return failed(std::move(begun.error()));
  }
  auto log = storage::event_log::open(prepared.directory.events_file());
  if (!log) return failed(std::move(log.error()));
  auto notes = std::move(prepared.notes);
  std::unique_ptr<live_run> made{new live_run{std::move(prepared), options, std::move(*log)}};
  for (auto& note : notes) {
    made->context_.record(event::kind::warning, "catalog", std::move(note));
  }
  made->thread_ = std::thread{[raw = made.get()] { raw->live(); }};
  return made;
}

live_run::live_run(prepared_run prepared, const run_options& options, storage::event_log log)
    : directory_(std::move(prepared.directory)),
      beginning_(std::move(prepared.beginning)),
      host_(std::move(prepared.host)),
      observer_(options.on_event, options.on_progress),
      board_(directory_.id(), prepared.values.cluster.ranks, host_->program().total_iterations,
             host_->program().iterations_per_epoch),
      worker_program_(options.worker_program),
      history_(read_history(prepared.past, prepared.values.chaos.size())),
      chaos_(prepared.values.chaos, prepared.values.cluster.ranks, history_),
      drops_(prepared.values.checkpoint.every_iterations),
      storage_(std::move(prepared.catalog), std::move(log), observer_),
      forensics_(*host_, storage_, directory_.path(), directory_.id(),
                 prepared.values.cluster.ranks) {
  storage::forget_status(directory_.path());
  board_.begin_at(beginning_.last_committed);
  for (const auto iteration : beginning_.left_out) board_.add_left_out(iteration);
  board_.set_membership({beginning_.last_generation, beginning_.branch, {}, {}});
  if (!prepared.past.empty()) board_.died_at(newest_iteration(prepared.past, prepared.values));
  if (prepared.values.metrics.tensorboard) {
    series_.emplace(directory_.tensorboard(), beginning_.last_committed.next());
  }
  context_.values = std::move(prepared.values);
  context_.run_id = directory_.id();
  context_.directory = &directory_;
  context_.host = host_.get();
  context_.storage = &storage_;
  context_.searcher = &searcher_;
  context_.board = &board_;
  context_.observer = &observer_;
  context_.forensics = &forensics_;
  context_.series = series_ ? &*series_ : nullptr;
  context_.orders = &orders_;
  context_.counts = &counts_;
  context_.holder = &holder_;
  context_.drops = &drops_;
  context_.history = &rows_;
  repeat_orders(context_, chaos_, history_);
}

live_run::~live_run() {
  stop_now();
  if (thread_.joinable()) thread_.join();
}

// Whatever goes wrong here is the run's failure, never the end of the process that embeds it (C03).
void live_run::live() {
  try {
    stop_watch_.emplace(directory_.path(), directory_.hold_token(),
                        [this](const std::string& reason) { request_stop(reason); });
    run_actors();
  } catch (const std::exception& e) {
    host_->set_listener(nullptr);
    host_->end(std::chrono::milliseconds{0});
    context_.actors.clear();
    conclude(
        {recovery::run_outcome::failed, std::string{"the control half failed: "} + e.what(), {}});
  }
}

void live_run::run_actors() {
  auto config = configuration();
  caf::actor_system system{config};
  host_news news{context_};
  context_.record(event::kind::run_started, "run", "in " + directory_.path().string());
  recovery::end_run how;
  try {
    spawn_root(system);
    host_->set_listener(&news);
    how = wait_for_end(system);
  } catch (const std::exception& e) {  // the actors live: they must be taken down before it leaves
    how = {recovery::run_outcome::failed, std::string{"the control half failed: "} + e.what(), {}};
  }
  shut_down(system, how);
}

// Whoever watches all actors is watched by this thread.
void live_run::spawn_root(caf::actor_system& system) {
  const auto on_end = [this](const recovery::end_run& how) { set_end(how); };
  const auto root = spawn_host_supervisor(system, context_, {beginning_, &chaos_, on_end});
  context_.actors.set(root);
  root->attach_functor([this](const caf::error&) {
    {
      const std::lock_guard lock{mutex_};
      root_died_ = true;
    }
    changed_.notify_all();
  });
}

// The one order in which a run is taken down. Each step has its deadline; nothing is left behind.
void live_run::shut_down(caf::actor_system& system, const recovery::end_run& how) {
  caf::scoped_actor self{system};
  const auto end = [&](const std::string& name, const auto& actor) {
    if (take_down(self, caf::actor_cast<caf::actor>(actor), actor_patience)) return;
    context_.record(event::kind::warning, name,
                    "did not leave within " + std::to_string(actor_patience.count()) +
                        " s of the run's end, and was killed");
  };
  // 1. No more faults, no more decisions, no restarts.
  end("host_supervisor", context_.actors.get<host_supervisor_actor>());
  end("chaos", context_.actors.get<chaos_actor>());
  end("run_supervisor", context_.actors.get<run_supervisor_actor>());
  // 2. The workers leave, or are killed.
  for (std::uint32_t rank = 0; rank < context_.values.cluster.ranks; ++rank) {
    if (const auto trainer = context_.actors.trainer(rank_id{rank})) {
      self->send(trainer, tell_worker{protocol::exit_worker{}});
    }
  }
  const bool orderly = how.last.has_value();
  host_->set_listener(nullptr);
  host_->end(orderly ? patience() : std::chrono::milliseconds{0});
  // 3. Nobody is left to hear of; what the rings hold is counted.
  for (std::uint32_t rank = 0; rank < context_.values.cluster.ranks; ++rank) {
    end("trainer:" + std::to_string(rank), context_.actors.trainer(rank_id{rank}));
  }
  end("checkpoint", context_.actors.get<checkpoint_actor>());
  end("metrics", context_.actors.get<metrics_actor>());
  context_.actors.clear();
  // 4. The disk has the last word.
  conclude(how);
}

void live_run::conclude(const recovery::end_run& how) {
  if (const auto late = searcher_.finish(job_patience)) {
    context_.record(event::kind::warning, "run", *late + " did not end by its deadline");
  }
  auto summary = board_.summary();
  summary.status = status_of(how);
  summary.error = how.error;
  summary.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  if (const auto drops = drops_.rest()) context_.record(event::kind::warning, "checkpoint", *drops);
  tell_of_missed_faults(summary);
  judge(summary);
  context_.record(event::kind::run_finished, "run",
                  summary.error.empty() ? summary.status : summary.status + ": " + summary.error);
  // By value: the job may outlive this function where the disk hangs.
  storage_.post(
      [this, summary, status = final_status(context_, summary)](storage::catalog& catalog) {
        if (series_) series_->close();
        host::warn_of_failure("status", storage::write_status(directory_.path(), status));
        host::warn_of_failure("catalog",
                              catalog.end_run(summary.run_id, summary.status, summary.iterations,
                                              to_json(summary), host::unix_now_ms()));
      });
  if (!storage_.drain(storage_patience)) {
    summary.status = "failed";
    summary.error += summary.error.empty() ? "" : "; ";
    summary.error += "the disk did not take the last writes by the deadline";
  }
  {
    const std::lock_guard lock{mutex_};
    summary_ = std::move(summary);
  }
  changed_.notify_all();
  // A disk that hangs may hold these up; whoever waits for the run's end has it already.
  stop_watch_.reset();
  directory_.say_over();
}

std::chrono::milliseconds live_run::patience() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      context_.values.supervision.grace_period);
}

void live_run::set_end(const recovery::end_run& how) {
  {
    const std::lock_guard lock{mutex_};
    if (end_) return;
    end_ = how;
  }
  changed_.notify_all();
}

recovery::end_run live_run::wait_for_end(caf::actor_system& system) {
  std::unique_lock lock{mutex_};
  std::uint32_t deaths = 0;
  while (true) {
    changed_.wait(lock, [this] { return end_ || root_died_; });
    if (end_) return *end_;
    root_died_ = false;
    if (++deaths > max_root_deaths) {
      return {recovery::run_outcome::failed, "host_supervisor dies again and again", {}};
    }
    lock.unlock();
    const auto begun = host::monotonic_now();
    spawn_root(system);
    const std::chrono::duration<double, std::milli> took = host::monotonic_now() - begun;
    context_.record(event::kind::actor_restarted, "host_supervisor", "died");
    board_.add(actor_restart_record{"host_supervisor", "died", took.count()});
    lock.lock();
  }
}

run_summary live_run::wait() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return summary_.has_value(); });
  return *summary_;
}

std::optional<run_summary> live_run::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, timeout, [this] { return summary_.has_value(); });
  return summary_;
}

}  // namespace ftrt::actors
