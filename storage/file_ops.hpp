#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ftrt::storage {

// A file that is being written. Closes on destruction, which makes nothing durable.
class output_file {
 public:
  virtual ~output_file() = default;
  // Appends all of `bytes`, or fails with an unknown part of them written.
  [[nodiscard]] virtual result<void> write(std::span<const std::byte> bytes) = 0;
  // Returns once the content is on the disk (fsync).
  [[nodiscard]] virtual result<void> sync() = 0;
};

// Everything that ftrt does to a disk when it publishes files: the one seam at which tests make
// calls fail, or drop what was not synced as a power cut does. A name (create, rename, remove,
// make_directory) is durable only once its folder was synced.
//
// Methods block for the disk. Errors: no_space, refused, not_found, io; they name the path.
class file_ops {
 public:
  virtual ~file_ops() = default;
  // An empty file for writing; what stood there is truncated. Mode 0666 less the umask.
  [[nodiscard]] virtual result<std::unique_ptr<output_file>> create(
      const std::filesystem::path& file) = 0;
  // Atomic; replaces the target.
  [[nodiscard]] virtual result<void> rename(const std::filesystem::path& from,
                                            const std::filesystem::path& to) = 0;
  [[nodiscard]] virtual result<void> sync_directory(const std::filesystem::path& directory) = 0;
  // Fine where it already exists. Mode 0777 less the umask.
  [[nodiscard]] virtual result<void> make_directory(const std::filesystem::path& directory) = 0;
  // Fine where there is no such file.
  [[nodiscard]] virtual result<void> remove_file(const std::filesystem::path& file) = 0;
  // Must be empty. Fine where there is none.
  [[nodiscard]] virtual result<void> remove_directory(const std::filesystem::path& directory) = 0;
  // Names in a folder, sorted; empty where there is no such folder.
  [[nodiscard]] virtual std::vector<std::string> list(const std::filesystem::path& directory) = 0;
};

// The real one. Stateless, any thread.
[[nodiscard]] file_ops& system_files();

// Writes a whole file so that it either is there, durable and complete, or not at all: temporary
// name, fsync, rename, folder fsync. The temporary is removed on failure.
[[nodiscard]] result<void> publish_file(file_ops& files, const std::filesystem::path& file,
                                        std::span<const std::byte> content);

// What publish_file calls `file` before it is whole.
[[nodiscard]] std::filesystem::path temporary_name(const std::filesystem::path& file);
[[nodiscard]] bool is_temporary(const std::filesystem::path& file);

// There is no such file, for certain: that a look at it failed (permissions, a broken disk) proves
// nothing.
[[nodiscard]] bool is_gone(const std::filesystem::path& file);

// The whole content. corrupt: longer than `limit_bytes`.
[[nodiscard]] result<std::vector<std::byte>> read_file(const std::filesystem::path& file,
                                                       std::uint64_t limit_bytes);

}  // namespace ftrt::storage
