#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>
#include <storage/checkpoint.hpp>
#include <storage/file_ops.hpp>
#include <storage/run_directory.hpp>
#include <vector>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_name = 60;

std::string utc(const char* format) {
  const auto now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

// A name from a scenario becomes part of a path: letters, digits and a few signs only.
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, max_name)) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || (c == '.' && !text.empty());
    text += fine ? c : '_';
  }
  return text.empty() ? "run" : text;
}

std::string make_id(const std::string& name) {
  std::random_device random;
  std::array<char, 16> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "%06x", random() & 0xffffffu);
  return plain(name) + "-" + utc("%Y%m%d-%H%M%S") + "-" + suffix.data();
}

result<void> make_subfolders(const run_directory& run) {
  for (const auto& folder : {run.checkpoints(), run.tensorboard(), run.worker_logs()}) {
    if (auto ok = system_files().make_directory(folder); !ok) return ok;
  }
  return {};
}

result<void> probe_space(const fs::path& directory, std::uint64_t needed, const std::string& text) {
  struct statvfs found {};
  if (::statvfs(directory.c_str(), &found) != 0) {
    return fail_errno("asking for the free space of " + directory.string(), errno);
  }
  const auto available = static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize;
  if (available >= needed) return {};
  return fail(error_code::no_space, directory.string() + " is on a disk with " +
                                        std::to_string(available) + " bytes free, " + text);
}

result<void> probe_writing(const fs::path& directory) {
  const auto file = directory / "write-probe";
  const std::array<std::byte, 4096> content{};
  if (auto ok = publish_file(system_files(), file, content); !ok) return ok;
  return system_files().remove_file(file);
}

// Finds out now what would otherwise be found at the first save (C14).
result<void> probe_new(const fs::path& directory, std::uint64_t free_bytes) {
  const auto text = "this run needs " + std::to_string(free_bytes) +
                    "; free some, or choose another run.directory";
  if (auto ok = probe_space(directory, free_bytes, text); !ok) return ok;
  return probe_writing(directory);
}

std::uint64_t largest_checkpoint(const fs::path& checkpoints) {
  std::uint64_t largest = 0;
  for (const auto& folder : find_checkpoints(checkpoints)) {
    std::uint64_t bytes = 0;
    for (const auto& name : system_files().list(folder)) {
      std::error_code error;
      const auto size = fs::file_size(folder / name, error);
      if (!error) bytes += size;
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Retention removes an old checkpoint only once the new one is durable, so there must be room for
// one more.
result<void> probe_old(const run_directory& run, std::uint64_t free_bytes) {
  const auto one_more = largest_checkpoint(run.checkpoints());
  const auto needed = free_bytes + one_more;
  const auto text = "to go on this run needs " + std::to_string(needed) + " (" +
                    std::to_string(one_more) + " for one more checkpoint, the largest so far, + " +
                    std::to_string(free_bytes) + " for the rest); free some, or move " +
                    run.path().string() + " to a larger disk";
  if (auto ok = probe_space(run.checkpoints(), needed, text); !ok) return ok;
  if (auto ok = probe_writing(run.checkpoints()); !ok) return ok;
  return probe_writing(run.path());
}

// The file that could not be written is of no interest to whoever wants to go on; the folder is.
error cannot_resume(const run_directory& run, error why) {
  if (why.code != error_code::refused) return why;
  return error{error_code::refused,
               "the run directory " + run.path().string() + " cannot be written (" + why.message +
                   "); resuming needs write access: change its permissions or its mount, or copy "
                   "it to where you may write",
               std::move(why.context)};
}

// Takes back a folder that was made here, unless keep() is called.
class made_folder {
 public:
  explicit made_folder(fs::path path) : path_(std::move(path)) {}
  ~made_folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  made_folder(const made_folder&) = delete;
  made_folder& operator=(const made_folder&) = delete;
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

// Makes a folder and those above it, and takes back what it made unless keep() is called: only
// while they are empty, since another run may have moved in meanwhile.
class made_parents {
 public:
  explicit made_parents(const fs::path& path) {
    std::error_code ignored;
    for (auto at = path; at.has_filename() && !fs::exists(at, ignored); at = at.parent_path()) {
      missing_.push_back(at);
    }
  }
  ~made_parents() {
    for (const auto& path : missing_) ::rmdir(path.c_str());
  }
  made_parents(const made_parents&) = delete;
  made_parents& operator=(const made_parents&) = delete;
  void keep() { missing_.clear(); }

 private:
  std::vector<fs::path> missing_;  // deepest first
};

}  // namespace

result<run_directory> run_directory::create(const fs::path& runs, const std::string& name,
                                            const std::string& scenario_toml,
                                            std::uint64_t free_bytes) {
  std::error_code error;
  const auto absolute = fs::absolute(runs, error).lexically_normal();
  made_parents parents{absolute};
  fs::create_directories(absolute, error);
  if (error) return fail_errno("making folder " + absolute.string(), error.value());
  run_directory run;
  run.id_ = make_id(name);
  run.path_ = absolute / run.id_;
  if (::mkdir(run.path_.c_str(), 0700) != 0) {
    return fail_errno("making folder " + run.path_.string(), errno);
  }
  made_folder made{run.path_};
  if (auto ok = probe_new(run.path_, free_bytes); !ok) return tl::unexpected(ok.error());
  auto lock = run_lock::take(run.path_);
  if (!lock) return tl::unexpected(lock.error());
  run.lock_ = std::move(*lock);
  if (auto ok = make_subfolders(run); !ok) return tl::unexpected(ok.error());
  const auto toml = std::as_bytes(std::span{scenario_toml});
  if (auto ok = publish_file(system_files(), run.scenario_file(), toml); !ok) {
    return tl::unexpected(ok.error());
  }
  if (auto ok = system_files().sync_directory(absolute); !ok) return tl::unexpected(ok.error());
  made.keep();
  parents.keep();
  return run;
}

result<run_directory> run_directory::open(const fs::path& directory, std::uint64_t free_bytes) {
  std::error_code error;
  run_directory run;
  run.path_ = fs::absolute(directory, error).lexically_normal();
  if (!run.path_.has_filename()) run.path_ = run.path_.parent_path();
  run.id_ = run.path_.filename().string();
  if (!fs::is_regular_file(run.scenario_file(), error)) {
    return fail(error_code::not_found,
                run.path_.string() + " is no run directory: it has no scenario.toml");
  }
  auto lock = run_lock::take(run.path_);
  if (!lock) return tl::unexpected(cannot_resume(run, std::move(lock.error())));
  run.lock_ = std::move(*lock);
  // What a crash left half-written may be what fills the disk.
  remove_leftovers(run.checkpoints());
  auto ok = make_subfolders(run);
  if (ok) ok = probe_old(run, free_bytes);
  if (!ok) return tl::unexpected(cannot_resume(run, std::move(ok.error())));
  return run;
}

fs::path run_directory::checkpoint(std::uint32_t branch, std::uint64_t iteration) const {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%04u-%012llu", branch,
                static_cast<unsigned long long>(iteration));
  return checkpoints() / name.data();
}

void run_directory::discard() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  lock_.release();
  path_.clear();
}

}  // namespace ftrt::storage
