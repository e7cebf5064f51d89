#include <cstdint>
#include <cstring>
#include <ftrt/error.hpp>
#include <storage/finite.hpp>

namespace ftrt::storage {
namespace {

// A float is not finite when all bits of its exponent are set. Whole numbers of any size, so that
// the compiler can take many at once; memcpy, since the bytes may change under us.
template <class Word>
bool any_not_finite(std::span<const std::byte> bytes, Word exponent) {
  unsigned found = 0;
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    found |= (word & exponent) == exponent ? 1U : 0U;
  }
  return found != 0;
}

bool is_finite(dtype type, std::span<const std::byte> bytes) {
  switch (type) {
    case dtype::f32:
      return !any_not_finite<std::uint32_t>(bytes, 0x7f800000U);
    case dtype::f64:
      return !any_not_finite<std::uint64_t>(bytes, 0x7ff0000000000000U);
    case dtype::f16:
      return !any_not_finite<std::uint16_t>(bytes, 0x7c00U);
    case dtype::bf16:
      return !any_not_finite<std::uint16_t>(bytes, 0x7f80U);
    default:
      return true;
  }
}

}  // namespace

std::optional<std::string> first_not_finite(const state_layout& layout, const layout_part& part,
                                            std::span<const std::byte> content) {
  FTRT_ASSERT(content.size() == part.end_bytes - part.begin_bytes);
  for (std::size_t i = part.first_tensor; i < part.first_tensor + part.tensor_count; ++i) {
    const auto& tensor = layout.tensors[i];
    if (tensor.section == tensor_section::scalar) continue;
    const auto bytes = content.subspan(tensor.offset_bytes - part.begin_bytes, tensor.size_bytes);
    if (!is_finite(tensor.type, bytes)) return tensor.name;
  }
  return std::nullopt;
}

}  // namespace ftrt::storage
