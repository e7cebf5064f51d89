#include <gtest/gtest.h>

#include <ftrt/types.hpp>
#include <schemas/state_layout.hpp>

namespace ftrt {
namespace {

state_layout layout_of(std::initializer_list<std::int64_t> floats_each) {
  state_layout layout;
  for (const auto count : floats_each) {
    tensor_spec tensor;
    tensor.name = "t" + std::to_string(layout.tensors.size());
    tensor.shape = {count};
    tensor.offset_bytes = layout.arena_bytes;
    tensor.size_bytes = static_cast<std::uint64_t>(count) * 4;
    layout.arena_bytes = align_up(tensor.offset_bytes + tensor.size_bytes, tensor_alignment_bytes);
    layout.tensors.push_back(tensor);
  }
  return layout;
}

TEST(state_layout, a_sound_layout_is_accepted) {
  EXPECT_TRUE(validate(layout_of({100, 7, 1, 4096})).has_value());
}

TEST(state_layout, each_kind_of_damage_is_refused_and_the_tensor_named) {
  const auto damaged = [](auto damage) {
    auto layout = layout_of({100, 7});
    damage(layout);
    const auto verdict = validate(layout);
    return verdict ? std::string{"accepted"} : verdict.error().describe();
  };
  using testing_layout = state_layout&;
  EXPECT_NE(damaged([](testing_layout l) { l.tensors[1].name = "t0"; }).find("'t0' appears twice"),
            std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) { l.tensors[1].name.clear(); }).find("no name"),
            std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) { l.tensors[1].offset_bytes = 64; }).find("overlaps"),
            std::string::npos);
  EXPECT_NE(
      damaged([](testing_layout l) { l.tensors[1].offset_bytes += 4; }).find("multiple of 64"),
      std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) { l.tensors[1].size_bytes += 4; }).find("say 28"),
            std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) { l.arena_bytes = 404; }).find("beyond the arena"),
            std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) { l.tensors[0].shape = {-1}; }).find("impossible"),
            std::string::npos);
  EXPECT_NE(damaged([](testing_layout l) {
              l.tensors[0].shape = {1LL << 40, 1LL << 40};
            }).find("impossible"),
            std::string::npos);
}

TEST(state_layout, parts_cover_every_tensor_once_in_order) {
  const auto layout = layout_of({100352, 128, 1280, 10, 100352, 128, 1280, 10, 1, 1, 1});
  for (std::uint32_t parts = 1; parts <= 16; ++parts) {
    std::size_t next = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const auto found = part_of(layout, part, parts);
      if (found.tensor_count == 0) continue;
      EXPECT_EQ(found.first_tensor, next);
      next += found.tensor_count;
      EXPECT_EQ(found.begin_bytes, layout.tensors[found.first_tensor].offset_bytes);
    }
    EXPECT_EQ(next, layout.tensors.size()) << parts << " parts";
  }
}

TEST(state_layout, dtype_names_are_those_of_safetensors_and_read_back) {
  for (const auto type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16, dtype::i64, dtype::i32,
                          dtype::u8, dtype::boolean}) {
    EXPECT_EQ(parse_dtype(to_string(type)).value(), type);
  }
  EXPECT_EQ(parse_dtype("F8_E4M3").error().code, error_code::unsupported);
}

}  // namespace
}  // namespace ftrt
