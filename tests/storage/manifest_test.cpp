#include <gtest/gtest.h>

#include <functional>
#include <storage/checkpoint.hpp>
#include <tests/storage/checkpoint_fixture.hpp>

namespace ftrt::storage {
namespace {

using testing::seeded;

checkpoint_manifest whole() {
  auto manifest = testing::header_of(12, 3);
  for (std::uint32_t part = 0; part < 2; ++part) {
    const auto place = part_of(manifest.layout, part, 2);
    shard_entry shard;
    shard.file = "part-" + std::to_string(part);
    shard.bytes = 100 + part;
    shard.digest = "0123456789abcdef0123456789abcdef";
    shard.part = part;
    shard.rank = rank_id{part};
    shard.incarnation = incarnation_id{part + 1};
    for (std::size_t i = 0; i < place.tensor_count; ++i) {
      shard.tensors.push_back(manifest.layout.tensors[place.first_tensor + i]);
    }
    manifest.shards.push_back(shard);
  }
  return manifest;
}

std::string verdict(const std::function<void(checkpoint_manifest&)>& damage) {
  auto manifest = whole();
  damage(manifest);
  const auto bytes = encode(manifest);
  if (!bytes) return bytes.error().describe();
  const auto decoded = decode_manifest(*bytes);
  return decoded ? "accepted" : decoded.error().describe();
}

TEST(manifest, every_field_survives_the_round_trip) {
  const auto original = whole();
  const auto bytes = encode(original).value();
  const auto decoded = decode_manifest(bytes);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().describe();
  EXPECT_EQ(decoded->run_id, original.run_id);
  EXPECT_EQ(decoded->branch, original.branch);
  EXPECT_EQ(decoded->generation, original.generation);
  EXPECT_EQ(decoded->iteration, original.iteration);
  EXPECT_EQ(decoded->world_size, original.world_size);
  EXPECT_EQ(decoded->created_ms, original.created_ms);
  EXPECT_EQ(decoded->layout, original.layout);
  ASSERT_EQ(decoded->shards.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(decoded->shards[i].file, original.shards[i].file);
    EXPECT_EQ(decoded->shards[i].bytes, original.shards[i].bytes);
    EXPECT_EQ(decoded->shards[i].digest, original.shards[i].digest);
    EXPECT_EQ(decoded->shards[i].part, original.shards[i].part);
    EXPECT_EQ(decoded->shards[i].rank, original.shards[i].rank);
    EXPECT_EQ(decoded->shards[i].incarnation, original.shards[i].incarnation);
    EXPECT_EQ(decoded->shards[i].tensors, original.shards[i].tensors);
  }
  EXPECT_EQ(encode(*decoded).value(), bytes);
}

TEST(manifest, a_name_that_leads_out_of_the_folder_is_refused) {
  for (const std::string name :
       {"", ".", "..", "../x", "/etc/passwd", "a/b", ".hidden", "manifest.bin", "a\nb"}) {
    const auto found = verdict([&](checkpoint_manifest& m) { m.shards[0].file = name; });
    EXPECT_NE(found.find("not a plain file name"), std::string::npos) << name << ": " << found;
  }
}

TEST(manifest, each_kind_of_inconsistency_is_refused) {
  const auto refuses = [](const std::function<void(checkpoint_manifest&)>& damage,
                          const std::string& why) {
    const auto found = verdict(damage);
    EXPECT_NE(found.find(why), std::string::npos) << found;
  };
  using m_ref = checkpoint_manifest&;
  refuses([](m_ref m) { m.shards.pop_back(); }, "is in no shard");
  refuses([](m_ref m) { m.shards[1].tensors = m.shards[0].tensors; }, "is in another shard");
  refuses([](m_ref m) { m.shards[1].part = 0; }, "part 0");
  refuses([](m_ref m) { m.shards[1].file = m.shards[0].file; }, "two shards");
  refuses([](m_ref m) { m.shards[0].digest = "xyz"; }, "no xxh3-128 digest");
  refuses([](m_ref m) { m.shards[0].digest[0] = 'A'; }, "no xxh3-128 digest");
  refuses([](m_ref m) { m.layout.tensors[0].size_bytes += 4; }, "its shape and dtype say");
  refuses([](m_ref m) { m.layout.arena_bytes = 64; }, "beyond the arena");
  refuses([](m_ref m) { m.shards[0].tensors[0].name = "unknown"; }, "not in the layout");
  refuses([](m_ref m) { m.run_id = std::string(1000, 'x'); }, "run id is too long");
}

TEST(manifest, another_format_is_unsupported_and_other_bytes_are_corrupt) {
  auto bytes = encode(whole()).value();
  bytes[7] = std::byte{'2'};
  EXPECT_EQ(decode_manifest(bytes).error().code, error_code::unsupported);
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(decode_manifest(bytes).error().code, error_code::corrupt);
  EXPECT_EQ(decode_manifest({}).error().code, error_code::corrupt);
}

TEST(manifest, hostile_messages_with_a_right_digest_never_crash_the_reader) {
  seeded random;
  const auto original = encode(whole()).value();
  for (int round = 0; round < 3000; ++round) {
    auto bytes = original;
    for (auto flips = 1 + random.below(6); flips > 0; --flips) {
      const auto at = 24 + random.below(bytes.size() - 24);
      bytes[at] = static_cast<std::byte>(random.below(3) == 0 ? 0xff : random());
    }
    testing::sign_manifest(bytes);
    const auto decoded = decode_manifest(bytes);
    if (!decoded) continue;
    EXPECT_TRUE(validate(decoded->layout));
    for (const auto& shard : decoded->shards) {
      EXPECT_EQ(shard.file.find('/'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ftrt::storage
