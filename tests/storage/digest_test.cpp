#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>
#include <storage/digest.hpp>
#include <storage/xxh3_kernel.hpp>
#include <string>
#include <tests/storage/support.hpp>

namespace ftrt::storage {
namespace {

using testing::filled_arena;
using testing::layout_of;
using testing::seeded;
using testing::small_layout;
using testing::tensor;

std::vector<std::byte> random_bytes(seeded& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(digest, is_xxh3_128_in_its_canonical_form) {
  EXPECT_EQ(digest_of({}), "99aa06d3014798d86001c324468d497f");
  const std::string text = "ftrt";
  digest_stream stream;
  stream.update(text);
  EXPECT_EQ(stream.hex(), digest_of(std::as_bytes(std::span{text})));
}

TEST(digest, does_not_depend_on_how_the_bytes_are_fed) {
  seeded random;
  const auto bytes = random_bytes(random, 50'000);
  const auto whole = digest_of(bytes);
  for (int round = 0; round < 20; ++round) {
    digest_stream stream;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto count = std::min<std::size_t>(1 + random.below(3000), bytes.size() - at);
      stream.update(std::span{bytes}.subspan(at, count));
      at += count;
    }
    EXPECT_EQ(stream.hex(), whole);
  }
}

#if defined(__x86_64__)
TEST(digest, is_the_same_on_every_instruction_set) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs a processor with AVX2";
  seeded random;
  const auto run = [](const xxh3_kernel& kernel, std::span<const std::byte> bytes) {
    alignas(64) std::array<std::byte, xxh3_kernel::state_bytes> state;
    std::array<std::uint8_t, 16> out{};
    kernel.reset(state.data());
    kernel.update(state.data(), bytes.data(), bytes.size());
    kernel.digest(state.data(), out.data());
    return out;
  };
  for (const std::size_t size : {1u, 16u, 17u, 128u, 240u, 241u, 1024u, 4097u, 100'003u}) {
    const auto bytes = random_bytes(random, size);
    EXPECT_EQ(run(xxh3_portable(), bytes), run(xxh3_avx2(), bytes)) << size;
  }
}
#endif

TEST(weights_digest, is_the_same_for_the_same_weights_whatever_the_layout) {
  const auto a = layout_of({tensor("b", dtype::f32, {3}), tensor("a", dtype::f32, {20}),
                            tensor("optim.a", dtype::f32, {20}, tensor_section::optimizer)});
  const auto b = layout_of({tensor("a", dtype::f32, {20}), tensor("b", dtype::f32, {3})});
  const auto first = filled_arena(a, 1);
  std::vector<std::byte> second(b.arena_bytes);
  std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(a.tensors[1].offset_bytes), 80,
              second.begin());
  std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(a.tensors[0].offset_bytes), 12,
              second.begin() + static_cast<std::ptrdiff_t>(b.tensors[1].offset_bytes));
  EXPECT_EQ(weights_digest(a, first), weights_digest(b, second));
}

TEST(weights_digest, changes_with_name_dtype_shape_and_any_bit_but_not_with_the_optimizer) {
  const auto layout = small_layout();
  auto arena = filled_arena(layout, 1);
  const auto original = weights_digest(layout, arena);
  const auto changed = [&](auto change) {
    auto other = layout;
    change(other.tensors[0]);
    return weights_digest(other, arena);
  };
  EXPECT_NE(changed([](tensor_spec& t) { t.name = "model.fc2.weight"; }), original);
  EXPECT_NE(changed([](tensor_spec& t) { t.type = dtype::i32; }), original);
  EXPECT_NE(changed([](tensor_spec& t) { t.shape = {9, 16}; }), original);
  arena[layout.tensors[2].offset_bytes] ^= std::byte{1};
  EXPECT_NE(weights_digest(layout, arena), original);
  arena[layout.tensors[2].offset_bytes] ^= std::byte{1};
  arena[layout.tensors[4].offset_bytes] ^= std::byte{1};
  EXPECT_EQ(weights_digest(layout, arena), original);
}

TEST(state_digest, covers_every_tensor_and_leaves_padding_out) {
  const auto layout = small_layout();
  auto arena = filled_arena(layout, 1);
  const auto original = state_digest(layout, arena);
  for (const auto& spec : layout.tensors) {
    auto& last = arena[spec.offset_bytes + spec.size_bytes - 1];
    last ^= std::byte{0x80};
    EXPECT_NE(state_digest(layout, arena), original) << spec.name;
    last ^= std::byte{0x80};
  }
  arena[layout.tensors[1].offset_bytes + layout.tensors[1].size_bytes] = std::byte{1};
  EXPECT_EQ(state_digest(layout, arena), original);
}

TEST(state_digest, as_words_it_says_the_same_as_in_hex) {
  const auto layout = small_layout();
  const auto arena = filled_arena(layout, 3);
  const auto words = state_digest_words(layout, arena);
  std::ostringstream hex;
  hex << std::hex << std::setfill('0') << std::setw(16) << words.high << std::setw(16) << words.low;
  EXPECT_EQ(hex.str(), state_digest(layout, arena));
}

}  // namespace
}  // namespace ftrt::storage
