#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <storage/shared_memory.hpp>
#include <tests/storage/support.hpp>
#include <tests/support/descriptors.hpp>
#include <vector>

namespace ftrt::storage {
namespace {

using testing::child_process;

TEST(shared_memory, is_zero_filled_page_aligned_and_seen_through_a_second_mapping) {
  auto memory = shared_memory::create("ftrt-test", 10'000).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
  for (const auto byte : memory.bytes()) ASSERT_EQ(byte, std::byte{0});
  memory.data()[9'999] = std::byte{42};
  auto same =
      shared_memory::map(memory.fd().duplicate().value(), 10'000, shared_memory::access::read_only);
  ASSERT_TRUE(same.has_value()) << same.error().describe();
  EXPECT_EQ(same->data()[9'999], std::byte{42});
}

TEST(shared_memory, cannot_be_shrunk_grown_or_sealed_further) {
  auto memory = shared_memory::create("ftrt-test", 8192).value();
  EXPECT_NE(::ftruncate(memory.fd().get(), 4096), 0);
  EXPECT_NE(::ftruncate(memory.fd().get(), 16384), 0);
  EXPECT_NE(::fcntl(memory.fd().get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(::fcntl(memory.fd().get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(shared_memory, is_copied_whole_by_one_thread_or_several_and_no_further_than_asked) {
  constexpr std::size_t size = (std::size_t{40} << 20) + 12'345;
  auto memory = shared_memory::create("ftrt-test", size).value();
  for (std::size_t i = 0; i < size; ++i) memory.data()[i] = static_cast<std::byte>(i * 31 >> 8);
  auto same =
      shared_memory::map(memory.fd().duplicate().value(), size, shared_memory::access::read_only)
          .value();
  for (const std::size_t wanted : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, size}) {
    std::vector<std::byte> copy(wanted + 1, std::byte{0xee});
    ASSERT_TRUE(same.copy_to(std::span{copy}.first(wanted)));
    EXPECT_TRUE(std::equal(copy.begin(), copy.end() - 1, memory.data())) << wanted;
    EXPECT_EQ(copy.back(), std::byte{0xee}) << wanted;
  }
}

TEST(shared_memory, of_no_size_or_an_impossible_one_is_refused) {
  EXPECT_EQ(shared_memory::create("ftrt-test", 0).error().code, error_code::invalid_argument);
  EXPECT_EQ(shared_memory::create("ftrt-test", ~std::size_t{0}).error().code,
            error_code::invalid_argument);
  auto memory = shared_memory::create("ftrt-test", 1).value();
  EXPECT_FALSE(
      shared_memory::map(memory.fd().duplicate().value(), 0, shared_memory::access::read_only));
}

TEST(shared_memory, an_unsealed_or_short_or_foreign_descriptor_is_refused) {
  const auto verdict = [](unique_fd fd, std::size_t size) {
    auto mapped = shared_memory::map(std::move(fd), size, shared_memory::access::read_write);
    return mapped ? error{} : mapped.error();
  };
  unique_fd unsealed{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(verdict(std::move(unsealed), 4096).code, error_code::corrupt);

  auto small = shared_memory::create("x", 4096).value();
  const auto why = verdict(small.fd().duplicate().value(), 4097);
  EXPECT_EQ(why.code, error_code::corrupt);
  EXPECT_NE(why.message.find("has 4096 bytes, expected at least 4097"), std::string::npos);

  EXPECT_EQ(verdict(unique_fd{::open("/dev/null", O_RDWR | O_CLOEXEC)}, 4096).code,
            error_code::corrupt);
  EXPECT_EQ(verdict(unique_fd{}, 4096).code, error_code::corrupt);
}

// Where the file cannot be read any more, only the mapping can.
void hide_file(const shared_memory& memory) {
  ASSERT_TRUE(test::reopen(memory.fd(), "/dev/null", O_RDONLY));
}

TEST(shared_memory, is_copied_from_the_mapping_where_all_of_it_was_touched) {
  constexpr std::size_t size = (5u << 20) + 17;
  constexpr std::size_t slice = 2u << 20;
  auto memory = shared_memory::create("ftrt-test", size).value();
  for (std::size_t at = 0; at < size; ++at) memory.data()[at] = static_cast<std::byte>(at * 7 / 3);
  auto same =
      shared_memory::map(memory.fd().duplicate().value(), size, shared_memory::access::read_only)
          .value();
  EXPECT_EQ(same.touch(slice).value(), size - slice);
  EXPECT_EQ(same.touch(slice).value(), size - 2 * slice);
  EXPECT_FALSE(same.touched());
  EXPECT_EQ(same.touch(slice).value(), 0u);
  EXPECT_EQ(same.touch(slice).value(), 0u) << "there is nothing left to touch";
  EXPECT_TRUE(same.touched());
  auto moved = std::move(same);
  EXPECT_TRUE(moved.touched());
  hide_file(moved);
  std::vector<std::byte> copy(size);
  ASSERT_TRUE(moved.copy_to(copy));
  EXPECT_TRUE(std::ranges::equal(copy, memory.bytes()));
}

TEST(shared_memory, is_copied_from_its_file_where_not_all_of_it_was_touched) {
  constexpr std::size_t size = 3 * 4096 + 5;
  auto memory = shared_memory::create("ftrt-test", size).value();
  memory.data()[size - 1] = std::byte{9};
  std::vector<std::byte> copy(size);
  EXPECT_EQ(memory.touch(size).value(), 0u);
  EXPECT_EQ(memory.let_go(4096), 2 * 4096u) << "whole pages, the last first";
  EXPECT_FALSE(memory.touched());
  ASSERT_TRUE(memory.copy_to(copy));
  EXPECT_EQ(copy[size - 1], std::byte{9});
  EXPECT_EQ(memory.let_go(1u << 20), 0u);
  EXPECT_EQ(memory.data()[size - 1], std::byte{9}) << "nothing is lost";
  hide_file(memory);
  EXPECT_FALSE(memory.copy_to(copy));
}

TEST(shared_memory, outlives_the_process_that_wrote_it) {
  auto memory = shared_memory::create("ftrt-test", 4096).value();
  child_process writer{[&] {
    memory.data()[17] = std::byte{7};
    ::raise(SIGKILL);
    return 1;
  }};
  EXPECT_EQ(writer.wait(), -SIGKILL);
  EXPECT_EQ(memory.data()[17], std::byte{7});
}

TEST(shared_memory, moves_without_losing_or_doubling_its_mapping) {
  auto first = shared_memory::create("ftrt-test", 4096).value();
  first.data()[0] = std::byte{1};
  auto second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): the state after it is the point
  auto third = shared_memory::create("ftrt-test", 4096).value();
  third = std::move(second);
  EXPECT_EQ(third.data()[0], std::byte{1});
  EXPECT_EQ(third.size(), 4096u);
}

}  // namespace
}  // namespace ftrt::storage
