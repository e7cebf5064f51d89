#include <algorithm>
#include <array>
#include <ftrt/types.hpp>
#include <limits>
#include <schemas/state_layout.hpp>
#include <unordered_set>

namespace ftrt {
namespace {

struct dtype_row {
  dtype type;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array dtypes{
    dtype_row{dtype::f32, "F32", 4}, dtype_row{dtype::f64, "F64", 8},
    dtype_row{dtype::f16, "F16", 2}, dtype_row{dtype::bf16, "BF16", 2},
    dtype_row{dtype::i64, "I64", 8}, dtype_row{dtype::i32, "I32", 4},
    dtype_row{dtype::u8, "U8", 1},   dtype_row{dtype::boolean, "BOOL", 1},
};

const dtype_row* find_row(dtype type) {
  const auto row = std::ranges::find(dtypes, type, &dtype_row::type);
  return row == dtypes.end() ? nullptr : &*row;
}

// shape x size_of(type), or nothing where it overflows or a dimension is negative.
bool dense_size(const tensor_spec& tensor, std::uint64_t& bytes) {
  const auto* row = find_row(tensor.type);
  if (row == nullptr) return false;
  bytes = row->bytes;
  for (const auto dimension : tensor.shape) {
    if (dimension < 0) return false;
    const auto extent = static_cast<std::uint64_t>(dimension);
    if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent) return false;
    bytes *= extent;
  }
  return true;
}

result<void> validate_tensor(const tensor_spec& tensor, std::uint64_t previous_end,
                             std::uint64_t arena_bytes) {
  const auto wrong = [&tensor](const std::string& what) {
    return fail(error_code::corrupt, "tensor '" + tensor.name + "' " + what, "state layout");
  };
  if (tensor.name.empty()) return wrong("has no name");
  std::uint64_t bytes = 0;
  if (!dense_size(tensor, bytes)) return wrong("has an impossible shape or dtype");
  if (bytes != tensor.size_bytes) {
    return wrong("says " + std::to_string(tensor.size_bytes) + " bytes, its shape and dtype say " +
                 std::to_string(bytes));
  }
  if (tensor.offset_bytes % tensor_alignment_bytes != 0) {
    return wrong("starts at " + std::to_string(tensor.offset_bytes) + ", not a multiple of " +
                 std::to_string(tensor_alignment_bytes));
  }
  if (tensor.offset_bytes < previous_end) return wrong("overlaps the one before it");
  if (tensor.offset_bytes > arena_bytes || bytes > arena_bytes - tensor.offset_bytes) {
    return wrong("ends beyond the arena of " + std::to_string(arena_bytes) + " bytes");
  }
  return {};
}

}  // namespace

std::size_t size_of(dtype type) {
  const auto* row = find_row(type);
  FTRT_ASSERT(row != nullptr);
  return row->bytes;
}

std::string_view to_string(dtype type) {
  const auto* row = find_row(type);
  return row == nullptr ? "?" : row->name;
}

result<dtype> parse_dtype(std::string_view text) {
  for (const auto& row : dtypes) {
    if (row.name == text) return row.type;
  }
  return fail(error_code::unsupported, "unknown dtype '" + std::string{text} + "'");
}

result<void> validate(const state_layout& layout) {
  std::unordered_set<std::string_view> names;
  std::uint64_t previous_end = 0;
  for (const auto& tensor : layout.tensors) {
    if (auto ok = validate_tensor(tensor, previous_end, layout.arena_bytes); !ok) return ok;
    if (!names.insert(tensor.name).second) {
      return fail(error_code::corrupt, "tensor '" + tensor.name + "' appears twice",
                  "state layout");
    }
    previous_end = tensor.offset_bytes + tensor.size_bytes;
  }
  return {};
}

layout_part part_of(const state_layout& layout, std::uint32_t part, std::uint32_t parts) {
  FTRT_ASSERT(parts > 0 && part < parts);
  // Tensor i belongs to the part in which its middle byte falls.
  const auto owner = [&](const tensor_spec& tensor) {
    const auto middle = tensor.offset_bytes + tensor.size_bytes / 2;
    const auto share = static_cast<long double>(middle) /
                       static_cast<long double>(std::max<std::uint64_t>(layout.arena_bytes, 1));
    return std::min(static_cast<std::uint32_t>(share * parts), parts - 1);
  };
  layout_part found;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const auto& tensor = layout.tensors[i];
    if (owner(tensor) != part) continue;
    if (found.tensor_count == 0) {
      found.first_tensor = i;
      found.begin_bytes = tensor.offset_bytes;
    }
    ++found.tensor_count;
    found.end_bytes = tensor.offset_bytes + tensor.size_bytes;
  }
  return found;
}

}  // namespace ftrt
