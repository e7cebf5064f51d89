#include <gtest/gtest.h>

#include <array>
#include <caf/actor_registry.hpp>
#include <caf/send.hpp>
#include <tests/actors/control/virtual_run.hpp>
#include <utility>

namespace ftrt::actors::testing {

bool patient_disk::post_if_room(job work) {
  if (jobs_.size() >= 256) return false;
  post(std::move(work));
  return true;
}

void patient_disk::run_once() {
  const auto next = std::move(jobs_.front());
  jobs_.pop_front();
  next(catalog_);
}

void patient_searcher::run_once() {
  const auto next = std::move(jobs_.front());
  jobs_.pop_front();
  next();
}

virtual_run::virtual_run(const std::function<void(scenario&)>& adjust,
                         std::uint64_t total_iterations, std::optional<std::uint64_t> order)
    : workers_(total_iterations) {
  auto& values = context_.values;
  values.cluster.ranks = 2;
  values.checkpoint.every_iterations = 10;
  values.metrics.tensorboard = false;
  if (adjust) adjust(values);
  if (order) order_.emplace(*order);
  directory_.emplace(storage::run_directory::create(folder_.path(), "virtual", "", 1).value());
  std::vector<std::string> notes;
  auto catalog = storage::catalog::open(directory_->path(), directory_->id(), notes).value();
  static_cast<void>(catalog.begin_run(directory_->id(), "virtual", 0));
  disk_ = std::make_unique<patient_disk>(std::move(catalog));
  board_ = std::make_unique<host::run_board>(directory_->id(), values.cluster.ranks,
                                             total_iterations, total_iterations);
  forensics_ = std::make_unique<host::forensics>(workers_, *disk_, directory_->path(),
                                                 directory_->id(), values.cluster.ranks);
  chaos_ = std::make_unique<chaos_schedule>(std::vector<chaos_entry>{}, values.cluster.ranks);
  context_.run_id = directory_->id();
  context_.directory = &*directory_;
  context_.host = &workers_;
  context_.storage = disk_.get();
  context_.searcher = &searcher_;
  context_.board = board_.get();
  context_.observer = &observer_;
  context_.forensics = forensics_.get();
  context_.orders = &orders_;
  context_.counts = &counts_;
  context_.holder = &holder_;
  context_.history = &rows_;
  context_.drops = &drops_.emplace(values.checkpoint.every_iterations);
  workers_.serve(context_);
  config_.set("scheduler.policy", caf::atom("testing"));
  system_ = std::make_unique<caf::actor_system>(config_);
  scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  spawn_root();
}

virtual_run::~virtual_run() {
  EXPECT_EQ(take_down(), 0U) << "an actor stays, and the system would wait for it for ever";
}

// As live_run does.
void virtual_run::spawn_root() {
  const auto root = spawn_host_supervisor(*system_, context_,
                                          {recovery::begin{}, chaos_.get(),
                                           [this](const recovery::end_run& how) {
                                             if (!end_) end_ = how;
                                           },
                                           &imitated_workers::make_trainer});
  context_.actors.set(root);
  root->attach_functor([this](const caf::error&) { root_died_ = true; });
}

bool virtual_run::step() {
  ++steps_;
  if (root_died_) {
    root_died_ = false;
    spawn_root();
    return true;
  }
  return do_what_is_due() || let_time_pass();
}

// Of what is due at this moment the first kind that has something, or any of them.
bool virtual_run::do_what_is_due() {
  struct source {
    bool has = false;
    std::function<void()> run;
  };
  const std::array<source, 4> sources{
      source{!workers_.pending.empty(),
             [this] {
               const auto next = std::move(workers_.pending.front());
               workers_.pending.pop_front();
               next();
             }},
      source{scheduler_->has_job(), [this] { scheduler_->run_once(); }},
      source{searcher_.has_job(), [this] { searcher_.run_once(); }},
      source{disk_->has_job(), [this] { disk_->run_once(); }}};
  std::vector<const source*> ready;
  for (const auto& each : sources) {
    if (each.has) ready.push_back(&each);
  }
  if (ready.empty()) return false;
  ready[order_ ? (*order_)() % ready.size() : 0]->run();
  return true;
}

bool virtual_run::let_time_pass() {
  auto& clock = scheduler_->clock();
  const auto before = clock.current_time;
  if (!clock.trigger_timeout()) return false;
  clock_.advance(std::chrono::duration_cast<duration>(clock.current_time - before));
  workers_.work();
  return true;
}

bool virtual_run::until(const std::function<bool()>& condition, duration most) {
  const auto deadline = host::monotonic_now() + most;
  while (!condition()) {
    if (host::monotonic_now() > deadline || !step()) return false;
  }
  return true;
}

void virtual_run::pass(duration time) {
  until([] { return false; }, time);
}

recovery::end_run virtual_run::to_its_end(duration most) {
  const bool ended = until([this] { return end_.has_value(); }, most);
  EXPECT_TRUE(ended) << "the run does not end; it is " << board_->phase() << ", committed "
                     << workers_.committed();
  return end_.value_or(recovery::end_run{recovery::run_outcome::failed, "does not end", {}});
}

std::vector<std::string> virtual_run::texts(event::kind what) const {
  std::vector<std::string> found;
  for (const auto& each : disk_->events()) {
    if (each.what == what) found.push_back(each.subject + ": " + each.text);
  }
  return found;
}

caf::actor virtual_run::find(const std::string& name) const {
  const auto& actors = context_.actors;
  const auto plain = [](const auto& handle) { return caf::actor_cast<caf::actor>(handle); };
  if (name == "host_supervisor") return plain(actors.get<host_supervisor_actor>());
  if (name == "run_supervisor") return plain(actors.get<run_supervisor_actor>());
  if (name == "checkpoint") return plain(actors.get<checkpoint_actor>());
  if (name == "metrics") return plain(actors.get<metrics_actor>());
  for (std::uint32_t rank = 0; rank < context_.values.cluster.ranks; ++rank) {
    if (name == "trainer:" + std::to_string(rank)) return plain(actors.trainer(rank_id{rank}));
  }
  return {};
}

bool virtual_run::kill(const std::string& name) {
  const auto actor = find(name);
  if (actor) caf::anon_send_exit(actor, caf::exit_reason::kill);
  return static_cast<bool>(actor);
}

std::size_t virtual_run::take_down() {
  for (const std::string name : {"host_supervisor", "run_supervisor", "trainer:0", "trainer:1",
                                 "trainer:2", "checkpoint", "metrics"}) {
    if (const auto actor = find(name)) {
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    }
    while (scheduler_->has_job()) scheduler_->run_once();
  }
  context_.actors.clear();
  while (scheduler_->has_job()) scheduler_->run_once();
  return system_->registry().running();
}

}  // namespace ftrt::actors::testing
