#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <schemas/unique_fd.hpp>
#include <utility>

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

ftrt::unique_fd open_null() {
  return ftrt::unique_fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

TEST(unique_fd, the_last_owner_closes_it) {
  int number = -1;
  {
    auto first = open_null();
    number = first.get();
    auto second = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): the state that is promised
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(unique_fd, a_released_one_stays_open) {
  auto fd = open_null();
  ftrt::unique_fd again{fd.release()};
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(is_open(again.get()));
}

TEST(unique_fd, a_duplicate_is_another_number_and_close_on_exec) {
  const auto fd = open_null();
  const auto copy = fd.duplicate();
  ASSERT_TRUE(copy.has_value());
  EXPECT_NE(copy->get(), fd.get());
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(unique_fd, duplicating_nothing_is_an_error) {
  EXPECT_FALSE(ftrt::unique_fd{}.duplicate().has_value());
}

TEST(unique_fd, closing_leaves_errno_alone) {
  auto fd = open_null();
  errno = ENOENT;
  fd.reset();
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
