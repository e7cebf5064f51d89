#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ftrt/scenario.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ftrt::data {

// An IDX file of unsigned bytes (the format of MNIST): big-endian magic 0x000008DD with DD
// dimensions, one u32 for each dimension, then the bytes.
//
// A plain file is mapped, never copied; a gzip file (recognised by its content, whatever its name)
// is inflated into memory. The file is checked whole when it is opened. Move-only.
class idx_file {
 public:
  // Refuses anything but exactly `dimensions` dimensions and exactly the bytes that they ask for;
  // the diagnostic names the file, what was expected and what was found.
  [[nodiscard]] static tl::expected<idx_file, diagnostic> open(const std::filesystem::path& file,
                                                               std::size_t dimensions);

  [[nodiscard]] const std::vector<std::uint32_t>& shape() const { return shape_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  idx_file() = default;

  std::filesystem::path path_;
  std::vector<std::uint32_t> shape_;
  std::span<const std::uint8_t> bytes_;
  std::shared_ptr<const void> owner_;  // the mapping, or the inflated bytes
};

}  // namespace ftrt::data
