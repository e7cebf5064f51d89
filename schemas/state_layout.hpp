#pragma once

#include <cstddef>
#include <cstdint>
#include <ftrt/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt {

enum class dtype : std::uint8_t { f32 = 0, f64, f16, bf16, i64, i32, u8, boolean };

[[nodiscard]] std::size_t size_of(dtype type);
// The names of safetensors: "F32", "BF16", "I64", "BOOL", ...
[[nodiscard]] std::string_view to_string(dtype type);
[[nodiscard]] result<dtype> parse_dtype(std::string_view text);

enum class tensor_section : std::uint8_t { parameter = 0, buffer, optimizer, scalar };

// One named tensor of the training state and its place in the state arena.
struct tensor_spec {
  std::string name;  // "model.fc1.weight", "optim.fc1.weight.momentum_buffer", "train.iteration"
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  tensor_section section = tensor_section::parameter;
  std::uint64_t offset_bytes = 0;  // in the arena, a multiple of tensor_alignment_bytes
  std::uint64_t size_bytes = 0;    // product of shape x size_of(type), without padding

  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

// The whole training state of a rank as one block of memory, the *state arena*: parameters,
// buffers, optimizer state and scalars (iteration, optimizer step, data position, loss scale,
// options), each a named tensor. So a snapshot is one copy, a transfer is one copy, a digest is one
// pass, and nothing is saved by position.
//
// Tensors stand in the order of their offsets, without overlap; the gaps between them are zero.
struct state_layout {
  std::vector<tensor_spec> tensors;
  std::uint64_t arena_bytes = 0;

  friend bool operator==(const state_layout&, const state_layout&) = default;
};

// Refuses (corrupt) a layout that is not as state_layout says: overlap, misalignment, a size that
// does not follow from shape and dtype, a duplicate or empty name, an end beyond the arena.
[[nodiscard]] result<void> validate(const state_layout& layout);

// A part of the arena for one of several writers: whole tensors, contiguous, about equal in bytes.
struct layout_part {
  std::size_t first_tensor = 0;
  std::size_t tensor_count = 0;  // 0: nothing to write
  std::uint64_t begin_bytes = 0;
  std::uint64_t end_bytes = 0;  // of the last tensor, without padding
};

// Parts 0 .. parts-1 cover every tensor exactly once, in order. A function of its arguments alone.
[[nodiscard]] layout_part part_of(const state_layout& layout, std::uint32_t part,
                                  std::uint32_t parts);

}  // namespace ftrt
