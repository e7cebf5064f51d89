#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <map>
#include <schemas/state_layout.hpp>
#include <span>
#include <string>
#include <vector>

namespace ftrt::storage {

// The safetensors format (github.com/huggingface/safetensors, "Format"): u64 little-endian length
// of the header, JSON header padded with spaces to 8 bytes, then the tensors back to back: no
// holes, no trailer, the last offset is the end of the file. Python's safetensors reads it as is.
//
//   auto header = safetensors_header(order, {{"run_id", "mnist-1"}});
//   file.write(header); for (auto& tensor : order) file.write(bytes of tensor);

inline constexpr std::uint64_t max_safetensors_header_bytes = std::uint64_t{64} << 20;

// The order in which tensors must stand in a file: wide elements first, so that dense packing keeps
// each one aligned to its element (PyTorch's reader asks for that). Stable otherwise.
[[nodiscard]] std::vector<tensor_spec> safetensors_order(std::span<const tensor_spec> tensors);

// Length, JSON and padding for tensors that follow in this very order. Offsets of the arena play no
// part. Names must be unique and valid UTF-8 (corrupt).
[[nodiscard]] result<std::vector<std::byte>> safetensors_header(
    std::span<const tensor_spec> tensors, const std::map<std::string, std::string>& metadata);

struct safetensors_entry {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin_bytes = 0;  // from the beginning of the file
  std::uint64_t size_bytes = 0;
};

struct safetensors_index {
  std::vector<safetensors_entry> entries;  // in the order of the file
  std::map<std::string, std::string> metadata;
};

// Strict, on bytes from anywhere: refuses (corrupt) a header beyond the file or the limit, JSON
// that is not the format's, duplicate names, sizes that do not follow from shape and dtype, holes,
// overlaps, a short file and a trailer. An unknown dtype is `unsupported`.
[[nodiscard]] result<safetensors_index> parse_safetensors(std::span<const std::byte> file);

}  // namespace ftrt::storage
