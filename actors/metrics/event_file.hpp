#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt::metrics {

// The parts of an event file's name. Readers take the files of a folder in the order of their
// names, so a later file must have the greater one.
struct event_file_name {
  std::int64_t seconds = 0;
  std::string host;
  std::int64_t pid = 0;
  std::uint64_t number = 0;

  // "events.out.tfevents.1764500000.host.4711.000001"
  [[nodiscard]] std::string text() const;
  // False where `name` is not of this form.
  [[nodiscard]] static bool parse(std::string_view name, event_file_name& out);
};

// The name for this process's next file in a folder that holds `existing`: at `now_seconds`, or
// later where a file of that second or beyond is there already (restarts within a second, a clock
// that was set back).
[[nodiscard]] event_file_name next_event_file_name(const std::vector<std::string>& existing,
                                                   std::int64_t now_seconds,
                                                   const std::string& host, std::int64_t pid);

// An append-only file that ends after a whole append, or is given up: an append that fails halfway
// (disk full) is cut off again, so that a reader never stops at a torn record with good ones behind
// it. Move-only, closes on destruction. One thread; blocks on the disk.
class event_file {
 public:
  // Creates `path`; it must not exist. The mode honours the umask.
  [[nodiscard]] static result<event_file> create(const std::filesystem::path& path);

  event_file() = default;
  ~event_file();
  event_file(event_file&& other) noexcept;
  event_file& operator=(event_file&& other) noexcept;
  event_file(const event_file&) = delete;
  event_file& operator=(const event_file&) = delete;

  // All of `bytes` or nothing. After a failure whose remains could not be cut off, usable() is
  // false and the caller goes on in a new file.
  [[nodiscard]] result<void> append(std::string_view bytes);
  [[nodiscard]] result<void> sync();
  [[nodiscard]] bool usable() const { return fd_ >= 0; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void close();
  void cut_back();

  int fd_ = -1;
  std::uint64_t good_bytes_ = 0;
  std::filesystem::path path_;
};

}  // namespace ftrt::metrics
