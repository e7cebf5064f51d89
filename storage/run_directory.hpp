#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <storage/run_lock.hpp>
#include <string>

namespace ftrt::storage {

// What a run that goes on writes besides checkpoints: catalog, events, logs, TensorBoard files.
inline constexpr std::uint64_t default_free_bytes = std::uint64_t{16} << 20;

// The folder of one run, `runs/<id>/`, private to its owner (0700) and held by one process at a
// time (run_lock). Move-only, any one thread.
//
//   <id>/catalog.sqlite  checkpoints/  tensorboard/  events.jsonl  scenario.toml  worker-logs/
//        status.json  postmortem/
class run_directory {
 public:
  // Makes a new one; the id is "<name>-<UTC time>-<random>". Probes write access and `free_bytes`
  // of space first (C14); on failure nothing is left behind.
  [[nodiscard]] static result<run_directory> create(const std::filesystem::path& runs,
                                                    const std::string& name,
                                                    const std::string& scenario_toml,
                                                    std::uint64_t free_bytes);
  // Takes an existing one, to go on in it. Removes what a crash left of checkpoints, then probes
  // write access, and space for one more checkpoint as large as the largest there is and
  // `free_bytes` for the rest (C14). busy: another living process holds it, named in the message.
  // refused: it cannot be written. no_space: with the arithmetic.
  [[nodiscard]] static result<run_directory> open(const std::filesystem::path& directory,
                                                  std::uint64_t free_bytes = default_free_bytes);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  [[nodiscard]] std::filesystem::path events_file() const { return path_ / "events.jsonl"; }
  [[nodiscard]] std::filesystem::path scenario_file() const { return path_ / "scenario.toml"; }
  [[nodiscard]] std::filesystem::path worker_logs() const { return path_ / "worker-logs"; }
  // "checkpoints/<branch>-<iteration>" with leading zeros, so that names sort.
  [[nodiscard]] std::filesystem::path checkpoint(std::uint32_t branch,
                                                 std::uint64_t iteration) const;

  // Of this hold; see run_lock.
  [[nodiscard]] const std::string& hold_token() const { return lock_.token(); }
  void say_over() const { lock_.say_over(); }

  // Removes the whole folder: for a run that was refused before it began.
  void discard();

 private:
  run_directory() = default;
  std::string id_;
  std::filesystem::path path_;
  run_lock lock_;
};

}  // namespace ftrt::storage
