#include <algorithm>
#include <chrono>
#include <ftrt/catalog.hpp>
#include <storage/catalog.hpp>
#include <storage/file_ops.hpp>
#include <storage/run_lock.hpp>
#include <storage/status_file.hpp>

namespace ftrt {
namespace {

namespace fs = std::filesystem;

// Also one that has only just begun: somebody holds it.
bool is_run(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "scenario.toml", ignored) ||
         fs::exists(directory / "catalog.sqlite", ignored) ||
         storage::find_holder(directory).has_value();
}

std::int64_t locked_ms(const fs::path& directory) {
  std::error_code error;
  const auto at = fs::last_write_time(directory / "lock", error);
  if (error) return 0;
  const auto since_epoch = std::chrono::file_clock::to_sys(at).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

result<run_row> read_run(const fs::path& directory) {
  auto catalog = storage::catalog::open_read_only(directory);
  if (!catalog) return tl::unexpected(catalog.error());
  auto rows = catalog->runs();
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return fail(error_code::not_found, "the catalog has no run yet");
  return rows->back();
}

// The catalog is told of them when the run ends; until then the run itself says how far it is.
void learn_iterations(run_row& row) {
  if (const auto status = storage::find_status(row.directory)) row.iterations = status->iteration;
}

run_row describe_run(const fs::path& directory) {
  const bool held = storage::find_holder(directory).has_value();
  auto row = read_run(directory);
  if (row) {
    // Whoever wrote "running" is gone, and had no time to write anything else.
    if (row->status == "running") learn_iterations(*row);
    if (row->status == "running" && !held) row->status = "interrupted";
    return *row;
  }
  run_row unreadable;
  unreadable.run_id = directory.filename().string();
  unreadable.name = unreadable.run_id;
  unreadable.directory = directory;
  // A run that has just begun has no row yet, but is the newest all the same.
  const bool begins = held && row.error().code == error_code::not_found;
  unreadable.status = begins ? "running" : "damaged";
  if (begins) unreadable.started_ms = locked_ms(directory);
  return unreadable;
}

std::string names_of(const std::vector<run_row>& rows) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + row.run_id;
  return text;
}

}  // namespace

result<std::vector<run_row>> list_runs(const fs::path& runs_directory) {
  std::error_code error;
  if (!fs::is_directory(runs_directory, error)) {
    return fail(error_code::not_found, "there is no folder " + runs_directory.string() +
                                           "; runs are kept where run.directory says");
  }
  const auto absolute = fs::absolute(runs_directory, error).lexically_normal();
  std::vector<run_row> rows;
  for (const auto& name : storage::system_files().list(absolute)) {
    if (is_run(absolute / name)) rows.push_back(describe_run(absolute / name));
  }
  std::ranges::stable_sort(rows, {}, &run_row::started_ms);
  return rows;
}

result<run_row> find_run(const fs::path& runs_directory, const std::string& run_id) {
  // The path of a run, as the end of a run prints it.
  if (const fs::path path{run_id}; path.has_parent_path()) {
    const auto named = path.has_filename() ? path : path.parent_path();
    return find_run(named.parent_path(), named.filename().string());
  }
  const auto rows = list_runs(runs_directory);
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) {
    return fail(error_code::not_found, "there is no run in " + runs_directory.string());
  }
  if (run_id.empty()) return rows->back();
  std::vector<run_row> matches;
  for (const auto& row : *rows) {
    if (row.run_id == run_id) return row;
    if (row.run_id.starts_with(run_id)) matches.push_back(row);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) {
    return fail(error_code::not_found, "no run in " + runs_directory.string() + " begins with '" +
                                           run_id + "'; there are " + names_of(*rows));
  }
  return fail(error_code::invalid_argument,
              "'" + run_id + "' is the beginning of several runs: " + names_of(matches));
}

result<std::vector<checkpoint_row>> list_checkpoints(const fs::path& run_directory) {
  auto catalog = storage::catalog::open_read_only(run_directory);
  if (!catalog) return tl::unexpected(catalog.error());
  return catalog->checkpoints();
}

result<std::vector<event>> list_events(const fs::path& run_directory) {
  auto catalog = storage::catalog::open_read_only(run_directory);
  if (!catalog) return tl::unexpected(catalog.error());
  return catalog->events();
}

}  // namespace ftrt
