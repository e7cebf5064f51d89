#include <algorithm>
#include <chrono>
#include <ftrt/scenario.hpp>
#include <ftrt/stop.hpp>
#include <storage/run_lock.hpp>
#include <storage/stop_request.hpp>
#include <thread>

// The other end of actors/host/stop_watch.
namespace ftrt {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds margin{10};
// A lock that is let go wakes nobody who has not asked for it, and asking would be in the way of
// whoever resumes the run. So it is looked at, ever more rarely.
constexpr milliseconds first_pause{5};
constexpr milliseconds longest_pause{100};
// A holder says who it is right after it took the lock.
constexpr std::chrono::seconds until_it_says{2};

std::string who_asks() {
  return "asked by " + storage::name_of_this_process();
}

milliseconds time_it_may_take(const fs::path& run_directory) {
  const auto loaded = load_scenario(run_directory / "scenario.toml");
  const auto limits = loaded ? loaded->values.supervision : scenario{}.supervision;
  return std::chrono::ceil<milliseconds>(limits.stop_timeout + limits.grace_period) + margin;
}

// Until `is_over` or the deadline.
template <class Condition>
void wait_until(clock::time_point deadline, const Condition& is_over) {
  auto pause = first_pause;
  while (!is_over() && clock::now() < deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - clock::now());
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 2, longest_pause);
  }
}

// Whoever holds it and can be asked.
std::optional<storage::run_holder> find_living(const fs::path& run_directory) {
  std::optional<storage::run_holder> holder;
  wait_until(clock::now() + until_it_says, [&] {
    holder = storage::find_holder(run_directory);
    return !holder || holder->over || !holder->token.empty();
  });
  if (holder && holder->token.empty()) holder.reset();
  return holder;
}

bool still_holds(const fs::path& run_directory, const std::string& token) {
  const auto now = storage::find_holder(run_directory);
  return now && now->token == token;
}

// Empty: nobody was there.
result<std::optional<storage::run_holder>> ask(const fs::path& run_directory,
                                               const std::string& reason) {
  // Once more where the holder was another one by the time the request lay there.
  constexpr int tries = 3;
  for (int i = 0; i < tries; ++i) {
    const auto holder = find_living(run_directory);
    if (!holder) return std::nullopt;
    if (auto ok = storage::write_stop_request(run_directory, holder->token, reason); !ok) {
      return tl::unexpected(std::move(ok.error()));
    }
    const auto now = find_living(run_directory);
    if (!now || now->token == holder->token) return holder;
  }
  return fail(error_code::busy,
              "the run directory " + run_directory.string() + " goes from hand to hand; try again");
}

result<void> look_up(stop_report& report, const fs::path& run_directory) {
  auto row = find_run(run_directory.parent_path(), run_directory.filename().string());
  if (!row) return tl::unexpected(std::move(row.error()));
  // A name may be the beginning of another run's, a folder may not.
  if (row->directory.filename() != run_directory.filename()) {
    return fail(error_code::not_found, "there is no run in " + run_directory.string());
  }
  report.run = std::move(*row);
  const auto checkpoints = list_checkpoints(run_directory);
  if (!checkpoints) return {};  // a run that has just begun has none
  for (const auto& each : *checkpoints) {
    const bool usable = each.state == "verified" || each.state == "committed";
    if (usable && (!report.checkpoint || each.iteration >= report.checkpoint->iteration)) {
      report.checkpoint = each;
    }
  }
  return {};
}

}  // namespace

bool stop_report::in_order() const {
  const bool fine = run.status == "stopped" || run.status == "completed";
  return came_to == outcome::ended && fine && checkpoint && checkpoint->iteration == run.iterations;
}

result<stop_report> stop_run(const fs::path& run_directory, const stop_options& options) {
  std::error_code error;
  auto directory = fs::absolute(run_directory, error).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();
  stop_report report;
  if (auto there = look_up(report, directory); !there) return tl::unexpected(there.error());
  const auto begun = clock::now();
  auto asked = ask(directory, options.reason.empty() ? who_asks() : options.reason);
  if (!asked) return tl::unexpected(std::move(asked.error()));
  if (*asked) {
    report.holder = (*asked)->text;
    const auto& token = (*asked)->token;
    const auto patience = options.timeout ? *options.timeout : time_it_may_take(directory);
    wait_until(begun + patience, [&] { return !still_holds(directory, token); });
    report.came_to =
        still_holds(directory, token) ? stop_report::outcome::asked : stop_report::outcome::ended;
  }
  report.waited = std::chrono::duration_cast<milliseconds>(clock::now() - begun);
  if (auto known = look_up(report, directory); !known) return tl::unexpected(known.error());
  return report;
}

}  // namespace ftrt
