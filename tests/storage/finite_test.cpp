#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <storage/finite.hpp>
#include <vector>

namespace ftrt::storage {
namespace {

// One tensor of each kind of float, a whole number and a scalar, 64 bytes each.
state_layout small_layout() {
  state_layout layout;
  const auto add = [&](const char* name, dtype type, tensor_section section) {
    const auto count = 64 / size_of(type);
    layout.tensors.push_back(
        {name, type, {static_cast<std::int64_t>(count)}, section, layout.arena_bytes, 64});
    layout.arena_bytes += 64;
  };
  add("w32", dtype::f32, tensor_section::parameter);
  add("w64", dtype::f64, tensor_section::buffer);
  add("w16", dtype::f16, tensor_section::optimizer);
  add("wb16", dtype::bf16, tensor_section::parameter);
  add("count", dtype::i64, tensor_section::buffer);
  add("accuracy", dtype::f64, tensor_section::scalar);
  return layout;
}

struct finite : ::testing::Test {
  state_layout layout = small_layout();
  std::vector<std::byte> arena = std::vector<std::byte>(layout.arena_bytes);

  template <class Word>
  void put(std::size_t tensor, std::size_t element, Word word) {
    std::memcpy(arena.data() + layout.tensors[tensor].offset_bytes + element * sizeof word, &word,
                sizeof word);
  }
  [[nodiscard]] std::optional<std::string> first() const {
    const auto all = part_of(layout, 0, 1);
    return first_not_finite(
        layout, all, std::span{arena}.subspan(all.begin_bytes, all.end_bytes - all.begin_bytes));
  }
};

TEST_F(finite, C35_a_nan_or_an_infinity_of_any_float_type_names_its_tensor) {
  EXPECT_EQ(first(), std::nullopt);
  for (const std::uint32_t bits :
       {0x7fc00000U, 0xffc00001U, 0x7f800001U, 0x7f800000U, 0xff800000U}) {
    put(0, 15, bits);
    EXPECT_EQ(first(), "w32") << std::hex << bits;
  }
  put(0, 15, std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max()));
  EXPECT_EQ(first(), std::nullopt) << "the largest float is finite";
  put(1, 7, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(first(), "w64");
  put(1, 7, std::numeric_limits<double>::denorm_min());
  put(2, 0, std::uint16_t{0x7c00});
  EXPECT_EQ(first(), "w16");
  put(2, 0, std::uint16_t{0x7bff});
  put(3, 31, std::uint16_t{0xff80});
  EXPECT_EQ(first(), "wb16");
}

TEST_F(finite, whole_numbers_and_scalars_may_have_any_bits) {
  put(4, 0, ~std::uint64_t{0});
  put(5, 0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(first(), std::nullopt);
}

TEST_F(finite, each_part_of_a_state_is_looked_at_where_it_stands) {
  put(3, 5, std::uint16_t{0x7fc0});
  std::size_t found = 0;
  for (std::uint32_t p = 0; p < 3; ++p) {
    const auto part = part_of(layout, p, 3);
    const auto content =
        std::span{arena}.subspan(part.begin_bytes, part.end_bytes - part.begin_bytes);
    if (first_not_finite(layout, part, content) == "wb16") ++found;
  }
  EXPECT_EQ(found, 1U);
}

}  // namespace
}  // namespace ftrt::storage
