#include <actors/metrics/crc32c.hpp>

#include <gtest/gtest.h>

#include <actors/metrics/record.hpp>
#include <string>

namespace ftrt::metrics {
namespace {

TEST(crc32c, gives_the_published_vectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending.push_back(c);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  const std::string descending{ascending.rbegin(), ascending.rend()};
  EXPECT_EQ(crc32c(descending), 0x113fdb5cu);
}

TEST(crc32c, masking_rotates_and_adds) {
  const std::uint32_t crc = crc32c("123456789");
  const std::uint32_t unmasked = masked_crc32c("123456789") - 0xa282ead8u;
  EXPECT_EQ((unmasked >> 17) | (unmasked << 15), crc);
}

TEST(record, is_framed_with_length_and_two_checksums) {
  std::string out;
  append_record(out, "abc");
  ASSERT_EQ(out.size(), 8u + 4u + 3u + 4u);
  EXPECT_EQ(out.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(out.substr(12, 3), "abc");
}

}  // namespace
}  // namespace ftrt::metrics
