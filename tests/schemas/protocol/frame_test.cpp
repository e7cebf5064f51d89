#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <random>
#include <schemas/protocol/limits.hpp>
#include <schemas/protocol/messages.hpp>
#include <tests/schemas/protocol/random_message.hpp>

namespace ftrt::protocol {
namespace {

using testing::message_source;
using bytes = std::vector<std::byte>;

bytes header(std::uint32_t length) {
  bytes made(4);
  std::memcpy(made.data(), &length, 4);
  return made;
}

bytes frame(const message& m) {
  auto made = encode_frame(m);
  EXPECT_TRUE(made.has_value());
  return made.value_or(bytes{});
}

error_code code_of(const std::optional<result<message>>& next) {
  EXPECT_TRUE(next.has_value() && !next->has_value());
  return next && !*next ? next->error().code : error_code::internal;
}

TEST(frame, a_length_is_little_endian_and_counts_the_message_alone) {
  const auto made = frame(query{});
  const auto length = decode_frame_length(std::span{made}.first(frame_header_bytes));
  ASSERT_TRUE(length.has_value());
  EXPECT_EQ(*length, made.size() - frame_header_bytes);
  EXPECT_EQ(std::to_integer<std::size_t>(made[0]), *length & 0xFF);
}

TEST(frame, a_length_of_zero_or_beyond_the_limit_is_corrupt) {
  for (const std::uint32_t length :
       {std::uint32_t{0}, static_cast<std::uint32_t>(max_message_bytes + 1), 0xFFFFFFFFu}) {
    const auto got = decode_frame_length(header(length));
    ASSERT_FALSE(got.has_value()) << length;
    EXPECT_EQ(got.error().code, error_code::corrupt);
  }
  EXPECT_EQ(decode_frame_length(header(1)).value(), 1u);
  EXPECT_EQ(decode_frame_length(header(max_message_bytes)).value(), max_message_bytes);
  EXPECT_FALSE(decode_frame_length(bytes(3)).has_value());
}

TEST(frame_reader, cuts_a_stream_at_any_place) {
  const std::uint64_t seed = std::random_device{}();
  message_source source{seed};
  std::vector<message> sent;
  bytes all;
  for (int i = 0; i < 500; ++i) {
    sent.push_back(source.any());
    const auto one = frame(sent.back());
    all.insert(all.end(), one.begin(), one.end());
  }
  frame_reader reader;
  std::size_t received = 0;
  for (std::size_t at = 0; at < all.size();) {
    const auto some = std::min<std::size_t>(1 + source.below(900), all.size() - at);
    reader.feed(std::span{all}.subspan(at, some));
    at += some;
    while (const auto m = reader.next()) {
      ASSERT_TRUE(m->has_value()) << "seed " << seed << ": " << m->error().describe();
      ASSERT_TRUE(testing::same(**m, sent[received++])) << "seed " << seed;
    }
  }
  EXPECT_EQ(received, sent.size());
  EXPECT_FALSE(reader.next().has_value());
}

TEST(frame_reader, reads_byte_by_byte) {
  const auto one = frame(joined{generation_id{3}, iteration_id{4}, "ab"});
  frame_reader reader;
  for (std::size_t i = 0; i + 1 < one.size(); ++i) {
    reader.feed(std::span{one}.subspan(i, 1));
    ASSERT_FALSE(reader.next().has_value()) << "after " << i + 1 << " bytes";
  }
  reader.feed(std::span{one}.last(1));
  const auto got = reader.next();
  ASSERT_TRUE(got && *got);
  EXPECT_EQ(std::get<joined>(**got).state_digest, "ab");
}

TEST(frame_reader, an_error_is_final) {
  frame_reader reader;
  reader.feed(header(0));
  EXPECT_EQ(code_of(reader.next()), error_code::corrupt);
  reader.feed(frame(query{}));
  EXPECT_EQ(code_of(reader.next()), error_code::corrupt);

  frame_reader other;
  auto bad = frame(query{});
  bad[frame_header_bytes] = std::byte{0x7F};  // an impossible number of segments
  const auto good = frame(query{});
  other.feed(good);
  other.feed(bad);
  other.feed(good);
  EXPECT_TRUE(other.next()->has_value());  // what came before the damage still counts
  EXPECT_EQ(code_of(other.next()), error_code::corrupt);
  EXPECT_EQ(code_of(other.next()), error_code::corrupt);
}

TEST(frame_reader, a_huge_length_is_refused_before_its_bytes_come) {
  frame_reader reader;
  reader.feed(header(0x7FFFFFFF));
  EXPECT_EQ(code_of(reader.next()), error_code::corrupt);
}

TEST(frame_reader, C43_a_million_messages_pass_on_one_reader) {
  bytes batch;
  for (int i = 0; i < 1000; ++i) {
    const auto one = frame(i % 2 == 0 ? message{hello{}} : message{peer_lost{{}, {rank_id{1}}}});
    batch.insert(batch.end(), one.begin(), one.end());
  }
  frame_reader reader;
  std::size_t received = 0;
  for (int round = 0; round < 1000; ++round) {
    reader.feed(batch);
    while (const auto m = reader.next()) {
      ASSERT_TRUE(m->has_value()) << "message " << received << ": " << m->error().describe();
      ++received;
    }
  }
  EXPECT_EQ(received, 1'000'000u);
}

TEST(frame_reader, C43_an_oversized_message_leaves_other_connections_alone) {
  const auto large = testing::oversized_query(8192);
  frame_reader ruined, healthy;
  ruined.feed(header(static_cast<std::uint32_t>(large.size())));
  ruined.feed(large);
  EXPECT_EQ(code_of(ruined.next()), error_code::refused);
  for (int i = 0; i < 100; ++i) {
    healthy.feed(frame(query{}));
    EXPECT_TRUE(healthy.next()->has_value());
  }
}

TEST(frame_reader, work_grows_with_the_bytes_and_not_with_their_square) {
  // 4 MiB of small frames fed at once: quadratic moving would take minutes.
  bytes all;
  const auto one = frame(query{});
  while (all.size() < (4u << 20)) all.insert(all.end(), one.begin(), one.end());
  frame_reader reader;
  std::size_t received = 0;
  for (std::size_t at = 0; at < all.size(); at += 64 * 1024) {
    reader.feed(std::span{all}.subspan(at, std::min<std::size_t>(64 * 1024, all.size() - at)));
    if (at % (1u << 20) != 0) continue;  // drained late
    while (const auto m = reader.next()) received += m->has_value() ? 1 : 0;
  }
  while (const auto m = reader.next()) received += m->has_value() ? 1 : 0;
  EXPECT_EQ(received, all.size() / one.size());
}

}  // namespace
}  // namespace ftrt::protocol
