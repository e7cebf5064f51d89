#include <algorithm>
#include <chrono>
#include <storage/private_file.hpp>
#include <storage/report_json.hpp>
#include <storage/run_lock.hpp>
#include <storage/status_file.hpp>

namespace ftrt {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_status_bytes = std::uint64_t{4} << 20;

fs::path file_of(const fs::path& run_directory) {
  return run_directory / "status.json";
}

std::int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

namespace storage {

result<void> write_status(const fs::path& run_directory, const run_status& status) {
  return replace_private_file(file_of(run_directory), to_json(status));
}

void forget_status(const fs::path& run_directory) {
  std::error_code ignored;
  fs::remove(file_of(run_directory), ignored);
}

std::optional<run_status> find_status(const fs::path& run_directory) {
  const auto text = read_private_file(file_of(run_directory), max_status_bytes);
  return text ? parse_status(*text) : std::nullopt;
}

}  // namespace storage

result<run_status> read_status(const fs::path& run_directory) {
  std::error_code error;
  auto directory = fs::absolute(run_directory, error).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();
  auto row = find_run(directory.parent_path(), directory.filename().string());
  if (!row) return tl::unexpected(std::move(row.error()));
  auto said = storage::find_status(row->directory);
  run_status status = said ? std::move(*said) : run_status{};
  status.told = said.has_value();
  status.run = std::move(*row);
  if (const auto holder = storage::find_holder(status.run.directory); holder && !holder->over) {
    status.holder = holder->text;
  }
  // A clock that was set back tells no age.
  const auto age_ms = std::max<std::int64_t>(unix_now_ms() - status.written_ms, 0);
  if (status.told) status.age_seconds = static_cast<double>(age_ms) / 1000;
  return status;
}

}  // namespace ftrt
