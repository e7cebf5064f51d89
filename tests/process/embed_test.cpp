// ftrt as a library inside a service: this very process.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <ftrt/catalog.hpp>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <mutex>
#include <vector>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

scenario small_values(const std::filesystem::path& folder, const std::string& chaos = "") {
  auto loaded = load_scenario(small_scenario(folder, chaos),
                              {"run.directory=\"" + (folder / "runs").string() + "\""});
  if (!loaded) throw std::runtime_error{loaded.error().front().describe()};
  return loaded->values;
}

run_options options_of() {
  run_options options;
  options.worker_program = programs() / "ftrt-worker";
  return options;
}

std::atomic<int> handled{0};
void count_signal(int) {
  ++handled;
}

TEST(an_embedding_service, C03_survives_a_rank_hears_of_it_and_keeps_its_signal_handlers) {
  const scratch_folder folder;
  struct sigaction mine {};
  mine.sa_handler = count_signal;
  struct sigaction before {};
  for (const int number : {SIGTERM, SIGCHLD, SIGUSR1}) ::sigaction(number, &mine, &before);

  std::mutex mutex;
  std::vector<event> events;
  auto options = options_of();
  options.on_event = [&](const event& happened) {
    const std::lock_guard lock{mutex};
    events.push_back(happened);
  };
  auto started = run::start(
      small_values(folder.path(), "[[chaos]]\nkind = \"kill\"\nrank = 1\nat_iteration = 200\n"),
      options);
  ASSERT_TRUE(started) << started.error().failed->describe();
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_EQ(summary.recoveries.size(), 1U);
  started->reset();

  bool told = false;
  for (const auto& happened : events) {
    told = told || (happened.what == event::kind::worker_lost && happened.rank == 1);
  }
  EXPECT_TRUE(told);
  for (const int number : {SIGTERM, SIGCHLD, SIGUSR1}) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    EXPECT_EQ(now.sa_handler, count_signal) << "the handler of signal " << number;
  }
  ::raise(SIGUSR1);
  EXPECT_GE(handled, 1);
}

TEST(an_embedding_service, trains_two_runs_at_once) {
  const scratch_folder first_folder;
  const scratch_folder second_folder;
  auto first = run::start(small_values(first_folder.path()), options_of());
  auto second = run::start(small_values(second_folder.path()), options_of());
  ASSERT_TRUE(first && second);
  const auto a = (*first)->wait();
  const auto b = (*second)->wait();
  EXPECT_EQ(a.status, "completed") << a.error;
  EXPECT_EQ(a.weights_digest, b.weights_digest);
  EXPECT_FALSE(a.weights_digest.empty());
}

TEST(an_embedding_service, is_refused_a_scenario_that_it_filled_in_wrongly) {
  const scratch_folder folder;
  auto values = small_values(folder.path());
  values.train.lr = -1;
  const auto started = run::start(values, options_of());
  ASSERT_FALSE(started);
  ASSERT_FALSE(started.error().refused.empty());
  EXPECT_EQ(started.error().refused.front().key, "train.lr");
}

TEST(an_embedding_service, that_drops_a_run_leaves_no_process_and_a_resumable_directory) {
  const scratch_folder folder;
  {
    auto started = run::start(small_values(folder.path()), options_of());
    ASSERT_TRUE(started);
    ASSERT_TRUE(eventually([&] { return checkpoints_of(folder.path()) >= 1; }));
  }
  const auto runs = list_runs(folder.path() / "runs");
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 1U);
  EXPECT_EQ(runs->front().status, "stopped");
  auto resumed = run::resume(folder.path() / "runs", "", {}, options_of());
  ASSERT_TRUE(resumed) << resumed.error().failed->describe();
  EXPECT_EQ((*resumed)->wait().status, "completed");
}

TEST(an_embedding_service, C41_can_stop_a_run_at_any_moment_and_waits_no_longer_than_it_must) {
  for (const auto delay : {0, 5, 20, 60, 150, 400}) {
    const scratch_folder folder;
    auto started = run::start(small_values(folder.path()), options_of());
    ASSERT_TRUE(started);
    EXPECT_FALSE((*started)->wait_for(std::chrono::milliseconds{delay}));
    (*started)->request_stop("test");
    const auto summary = (*started)->wait_for(std::chrono::seconds{20});
    ASSERT_TRUE(summary) << "asked after " << delay << " ms";
    EXPECT_EQ(summary->status, "stopped") << summary->error;
    EXPECT_EQ(summary->last_checkpoint_iteration, summary->iterations);
  }
}

TEST(an_embedding_service, is_told_the_cause_and_the_last_words_of_a_crash_loop) {
  const scratch_folder folder;
  auto values = small_values(folder.path());
  values.model.kind = "aborting";
  values.model.layers.clear();
  values.model.dropout = 0;
  auto options = options_of();
  options.worker_program = FTRT_DIFFICULT_WORKER;
  auto started = run::start(values, options);
  ASSERT_TRUE(started) << started.error().refused.front().describe();
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "failed");
  EXPECT_NE(summary.error.find("SIGABRT"), std::string::npos) << summary.error;
  EXPECT_NE(summary.error.find("these are my last words"), std::string::npos) << summary.error;
  const auto log = read_file((*started)->directory() / "worker-logs" / "rank-0.log") +
                   read_file((*started)->directory() / "worker-logs" / "rank-1.log");
  EXPECT_NE(log.find("these are my last words"), std::string::npos);
}

// Of this process, in MiB: what it has, and the most that it ever had.
std::size_t memory_mib(const std::string& which) {
  const auto status = read_file("/proc/self/status");
  const auto at = status.find(which + ":");
  return at == std::string::npos ? 0 : std::stoul(status.substr(at + which.size() + 1)) / 1024;
}

TEST(an_embedding_service,
     lets_a_worker_that_floods_its_control_socket_wait_and_acts_on_deaths_meanwhile) {
  const scratch_folder folder;
  auto values = small_values(
      folder.path(), "[[chaos]]\nkind = \"kill\"\nrank = 1\nevery = \"300ms\"\nmax_count = 1\n");
  values.model.kind = "flooding";
  values.model.layers.clear();
  values.model.dropout = 0;
  auto options = options_of();
  options.worker_program = FTRT_DIFFICULT_WORKER;
  std::ofstream{"/proc/self/clear_refs"} << "5";  // the peak begins anew
  const auto before = memory_mib("VmRSS");
  auto started = run::start(values, options);
  ASSERT_TRUE(started);
  const auto summary = (*started)->wait();
  const auto most = memory_mib("VmHWM");
  // Without a bound it took gigabytes; a sanitizer keeps some of what was freed.
  EXPECT_LT(most, before + 100 * slowness) << "what nobody came to deal with fills the mailboxes";
  EXPECT_EQ(summary.status, "completed") << summary.error;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "runs" / "flooded"));
  // Rank 0 is stuck in its flood from its first iterations on; it is found by its missing progress,
  // or by not leaving the generation when rank 1 dies.
  const auto is_of = [](std::uint32_t rank) {
    return [rank](const recovery_record& each) { return each.rank == rank; };
  };
  EXPECT_EQ(std::ranges::count_if(summary.recoveries, is_of(0)), 1) << to_json(summary);
  EXPECT_GE(std::ranges::count_if(summary.recoveries, is_of(1)), 1) << to_json(summary);
  const bool late = std::ranges::any_of(summary.recoveries, [](const recovery_record& each) {
    return each.rank == 1 && each.detected_ms > 250 * slowness;
  });
  EXPECT_FALSE(late) << to_json(summary);
}

TEST(an_embedding_service, C03_is_told_when_descriptors_run_short_instead_of_being_ended) {
  const scratch_folder folder;
  const auto values = small_values(folder.path());
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  for (const rlim_t few : {16, 24, 40, 80}) {
    const rlimit low{few, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    const auto started = run::start(values, options_of());
    ::setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(started);
    EXPECT_NE(started.error().failed->message.find("ulimit -n"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "runs"));
}

TEST(an_embedding_service, is_told_when_there_is_no_worker_program) {
  const scratch_folder folder;
  run_options options;
  options.worker_program = folder.path() / "nothing";
  const auto started = run::start(small_values(folder.path()), options);
  ASSERT_FALSE(started);
  ASSERT_TRUE(started.error().failed);
  EXPECT_EQ(started.error().failed->code, error_code::not_found);
}

TEST(an_embedding_service, C37_is_not_killed_by_a_scenario_unless_it_says_so) {
  const scratch_folder folder;
  const auto started = run::start(
      small_values(folder.path(), "[[chaos]]\nkind = \"kill_supervisor\"\nat_iteration = 20\n"),
      options_of());
  ASSERT_FALSE(started);
  ASSERT_EQ(started.error().refused.size(), 1U);
  EXPECT_EQ(started.error().refused[0].key, "chaos[0].kind");
}

TEST(an_embedding_service, is_told_what_became_of_what_its_scenario_expects) {
  const scratch_folder folder;
  auto started = run::start(small_values(folder.path(),
                                         "[expect]\nweights_digest = \"same_as_fault_free\"\n"
                                         "min_recoveries = 5\n"
                                         "[[chaos]]\nkind = \"kill\"\nrank = 1\n"
                                         "at_iteration = 200\n"),
                            options_of());
  ASSERT_TRUE(started);
  const auto summary = (*started)->wait();
  EXPECT_EQ(summary.status, "completed");
  ASSERT_EQ(summary.expectations.size(), 2U);
  EXPECT_TRUE(summary.expectations[0].met) << summary.expectations[0].found;
  EXPECT_FALSE(summary.expectations[1].met);
}

}  // namespace
}  // namespace ftrt::test
