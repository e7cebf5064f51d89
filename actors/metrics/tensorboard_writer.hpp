#pragma once

#include <actors/metrics/event_file.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ftrt::metrics {

// One point of one series.
struct scalar {
  std::string_view tag;  // see series.hpp; must outlive the call
  double value = 0;
};

// Writes TensorBoard event files into a folder of its own: the only writer there, for two writers
// hide each other's points. The folder is locked while the writer lives.
//
//   auto writer = tensorboard_writer::open(run / "tensorboard", iteration_id{1});
//   writer->add(iteration_id{1}, wall_clock::now(), points);
//   writer->flush();
//
// A reader takes a file that begins with SessionLog START at step s as: forget every point at s and
// beyond. So each open() and each restart() begins a new file with the first step it will write,
// and what a torn tail may have cost is that file's end alone, never what came before it or comes
// in the next.
//
// Points are buffered until flush() or `buffer_limit_bytes`. Owned by the metrics actor's device
// thread; one thread; blocks on the disk.
class tensorboard_writer {
 public:
  using wall_clock = std::chrono::system_clock;

  static constexpr std::size_t buffer_limit_bytes = 64u << 10;
  // What is kept for the next try while the disk refuses (C14); newer points are then refused.
  static constexpr std::size_t backlog_limit_bytes = 1u << 20;

  // Creates the folder where it is missing. `first_step`: the first iteration that will be written;
  // readers drop what earlier files have at it and beyond. Errors: busy (another writer), io, ...
  [[nodiscard]] static result<tensorboard_writer> open(const std::filesystem::path& directory,
                                                       iteration_id first_step);

  ~tensorboard_writer();
  tensorboard_writer(tensorboard_writer&& other) noexcept;
  tensorboard_writer& operator=(tensorboard_writer&&) = delete;
  tensorboard_writer(const tensorboard_writer&) = delete;
  tensorboard_writer& operator=(const tensorboard_writer&) = delete;

  // All of `points` at one step. Steps per tag must grow within a file: series_filter's business.
  [[nodiscard]] result<void> add(iteration_id step, wall_clock::time_point when,
                                 std::span<const scalar> points);

  // Goes on in a new file at `first_step`: after a rollback. Where that fails, the next flush tries
  // again; nothing is written to the old file any more.
  [[nodiscard]] result<void> restart(iteration_id first_step);

  enum class durability { page_cache, disk };
  // A killed process loses nothing that was flushed to the page cache; a power cut may.
  [[nodiscard]] result<void> flush(durability how = durability::page_cache);

  [[nodiscard]] const std::filesystem::path& file() const { return file_.path(); }

 private:
  tensorboard_writer(std::filesystem::path directory, int lock_fd);
  [[nodiscard]] result<void> begin_file(iteration_id first_step);

  std::filesystem::path directory_;
  int lock_fd_ = -1;
  event_file file_;
  std::string pending_;                     // whole records
  std::optional<iteration_id> next_start_;  // of a file that is yet to be begun
  iteration_id newest_step_;
};

}  // namespace ftrt::metrics
