#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <storage/safetensors.hpp>
#include <tests/storage/support.hpp>

namespace ftrt::storage {
namespace {

using testing::seeded;
using testing::small_layout;
using testing::tensor;

std::vector<std::byte> file_of(std::span<const tensor_spec> tensors) {
  const auto order = safetensors_order(tensors);
  auto bytes = safetensors_header(order, {{"run_id", "r"}}).value();
  for (const auto& spec : order) bytes.resize(bytes.size() + spec.size_bytes, std::byte{1});
  return bytes;
}

// A file with this very header text and so many bytes after it.
std::vector<std::byte> file_with(std::string header, std::size_t data) {
  std::vector<std::byte> bytes(8 + header.size() + data);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string verdict(const std::vector<std::byte>& file) {
  const auto index = parse_safetensors(file);
  return index ? "accepted" : index.error().describe();
}

TEST(safetensors, what_is_written_is_read_back) {
  const auto layout = small_layout();
  const auto file = file_of(layout.tensors);
  const auto index = parse_safetensors(file);
  ASSERT_TRUE(index.has_value()) << index.error().describe();
  EXPECT_EQ(index->metadata.at("run_id"), "r");
  ASSERT_EQ(index->entries.size(), layout.tensors.size());
  for (const auto& entry : index->entries) {
    const auto at = std::ranges::find(layout.tensors, entry.name, &tensor_spec::name);
    ASSERT_NE(at, layout.tensors.end());
    EXPECT_EQ(entry.type, at->type);
    EXPECT_EQ(entry.shape, at->shape);
    EXPECT_EQ(entry.size_bytes, at->size_bytes);
  }
}

TEST(safetensors, every_tensor_is_aligned_to_its_element) {
  const auto file = file_of(small_layout().tensors);
  const auto index = parse_safetensors(file).value();
  for (const auto& entry : index.entries) {
    EXPECT_EQ(entry.begin_bytes % size_of(entry.type), 0u) << entry.name;
  }
}

TEST(safetensors, a_file_without_tensors_and_tensors_without_elements_are_fine) {
  EXPECT_EQ(verdict(file_of({})), "accepted");
  const std::vector tensors{tensor("empty", dtype::f32, {0, 5}), tensor("b", dtype::f32, {2})};
  EXPECT_EQ(verdict(file_of(tensors)), "accepted");
}

TEST(safetensors, names_that_json_cannot_hold_or_that_clash_are_refused) {
  EXPECT_FALSE(safetensors_header(std::vector{tensor("\xff\xfe", dtype::f32, {1})}, {}));
  EXPECT_FALSE(safetensors_header(std::vector{tensor("__metadata__", dtype::f32, {1})}, {}));
  EXPECT_FALSE(safetensors_header(
      std::vector{tensor("a", dtype::f32, {1}), tensor("a", dtype::f32, {1})}, {}));
}

TEST(safetensors, C18_short_files_and_trailers_are_errors_never_zeros) {
  const auto file = file_of(small_layout().tensors);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> cut(file.begin(),
                                     file.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_NE(verdict(cut), "accepted") << size;
  }
  auto longer = file;
  longer.push_back(std::byte{0});
  EXPECT_NE(verdict(longer).find("1 bytes after the last tensor"), std::string::npos);
}

TEST(safetensors, each_kind_of_wrong_header_is_named) {
  const auto f32 = [](const std::string& name, const std::string& shape, int begin, int end) {
    return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const auto one = f32("a", "[1]", 0, 4);
  EXPECT_EQ(verdict(file_with("{" + one + "}", 4)), "accepted");
  const auto refuses = [](const std::string& header, std::size_t data, const std::string& why) {
    const auto found = verdict(file_with(header, data));
    EXPECT_NE(found.find(why), std::string::npos) << header << "\n  " << found;
  };
  refuses("{" + one + "," + one + "}", 4, "'a' appears twice");
  refuses("{" + one + "," + f32("b", "[1]", 8, 12) + "}", 12, "'b' begins at 8, expected 4");
  refuses("{" + one + "," + f32("b", "[1]", 2, 6) + "}", 6, "'b' begins at 2, expected 4");
  refuses("{" + f32("a", "[2]", 0, 4) + "}", 4, "4 bytes, its shape and dtype say 8");
  refuses("{" + f32("a", "[1]", 4, 0) + "}", 4, "ends before it begins");
  refuses("{" + f32("a", "[-1]", 0, 4) + "}", 4, "no natural number");
  refuses("{" + f32("a", "[1.5]", 0, 4) + "}", 4, "no natural number");
  refuses("{" + f32("a", "[4611686018427387904,4]", 0, 4) + "}", 4, "impossible shape");
  refuses("{" + f32("a", "7", 0, 4) + "}", 4, "field of the wrong type");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "needs exactly dtype");
  refuses("{\"a\":{\"dtype\":\"F8_E5M2\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
          "unsupported: unknown dtype 'F8_E5M2'");
  refuses("{\"__metadata__\":{\"x\":1}," + one + "}", 4, "__metadata__.x is not a string");
  refuses("{\"__metadata__\":[]," + one + "}", 4, "__metadata__ is not an object");
  refuses("[1]", 0, "not a JSON object");
  refuses("{" + one, 4, "not a JSON object");
  refuses("{\"\xff\":1}", 4, "not a JSON object");
  refuses(std::string(100'000, '{'), 0, "not a JSON object");
  refuses("{\"a\":" + std::string(100'000, '['), 0, "not a JSON object");
}

TEST(safetensors, a_header_length_beyond_the_file_or_the_limit_is_refused) {
  for (const std::uint64_t length :
       {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{100}}) {
    auto file = file_with("{}", 0);
    std::memcpy(file.data(), &length, 8);
    EXPECT_NE(verdict(file).find("header of " + std::to_string(length)), std::string::npos);
  }
}

TEST(safetensors, random_damage_never_crashes_the_reader) {
  seeded random;
  const auto file = file_of(small_layout().tensors);
  for (int round = 0; round < 5000; ++round) {
    auto damaged = file;
    for (auto flips = 1 + random.below(4); flips > 0; --flips) {
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random());
    }
    const auto index = parse_safetensors(damaged);
    if (!index) continue;
    for (const auto& entry : index->entries) {
      ASSERT_LE(entry.begin_bytes, damaged.size());
      ASSERT_LE(entry.size_bytes, damaged.size() - entry.begin_bytes);
    }
  }
}

}  // namespace
}  // namespace ftrt::storage
