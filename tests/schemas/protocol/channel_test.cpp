#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <schemas/protocol/channel.hpp>
#include <schemas/protocol/limits.hpp>
#include <string>
#include <tests/schemas/protocol/random_message.hpp>
#include <thread>
#include <utility>

namespace ftrt::protocol {
namespace {

using namespace std::chrono_literals;
using testing::message_source;

time_point in(std::chrono::milliseconds wait) {
  return std::chrono::steady_clock::now() + wait;
}

error_code code_of(const auto& r) {
  EXPECT_FALSE(r.has_value());
  return r ? error_code::internal : r.error().code;
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

class channel : public ::testing::Test {
 protected:
  void open(int type) {
    auto ends = socket_pair(type);
    ASSERT_TRUE(ends.has_value()) << ends.error().describe();
    std::tie(near_, far_) = std::move(*ends);
  }
  [[nodiscard]] int near() const { return near_.get(); }
  [[nodiscard]] int far() const { return far_.get(); }

  // A packet that no function of ours would make.
  void send_raw(std::span<const std::byte> bytes, std::span<const int> descriptors) const {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(descriptors.size_bytes()));
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      auto* rights = CMSG_FIRSTHDR(&header);
      *rights = {CMSG_LEN(descriptors.size_bytes()), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    ASSERT_EQ(::sendmsg(near(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  unique_fd near_, far_;
};

std::array<std::byte, 16> reference_to(std::uint64_t length) {
  std::array<std::byte, 16> bytes{};
  const std::uint32_t marker = 0xFFFFFFFF;
  std::memcpy(bytes.data(), &marker, 4);
  std::memcpy(bytes.data() + 8, &length, 8);
  return bytes;
}

class packets : public channel {
 protected:
  void SetUp() override { open(SOCK_SEQPACKET); }
};

class stream : public channel {
 protected:
  void SetUp() override { open(SOCK_STREAM); }
};

TEST_F(packets, both_ends_are_close_on_exec) {
  EXPECT_EQ(::fcntl(near(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(far(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(packets, messages_arrive_whole_and_in_order) {
  message_source source{7};
  std::vector<message> sent;
  for (std::size_t type = 0; type < std::variant_size_v<message>; ++type) {
    sent.push_back(source.of_type(type));
    ASSERT_TRUE(send_packet(near(), sent.back()).has_value());
  }
  for (const auto& m : sent) {
    const auto got = receive_packet(far());
    ASSERT_TRUE(got.has_value()) << got.error().describe();
    EXPECT_TRUE(testing::same(got->body, m)) << name_of(m);
    EXPECT_TRUE(got->descriptors.empty());
  }
}

TEST_F(packets, descriptors_arrive_in_order_and_close_on_exec) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const unique_fd read_end{pipe[0]}, write_end{pipe[1]};
  ASSERT_TRUE(send_packet(near(), fork_worker{}, std::array{pipe[1], pipe[0]}).has_value());
  const auto got = receive_packet(far());
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  ASSERT_EQ(got->descriptors.size(), 2u);
  EXPECT_EQ(::fcntl(got->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_EQ(::write(got->descriptors[0].get(), "x", 1), 1);
  char c = 0;
  ASSERT_EQ(::read(got->descriptors[1].get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST_F(packets, as_many_descriptors_as_linux_passes_and_not_one_more) {
  const std::vector<int> all(max_descriptors, near());
  ASSERT_TRUE(send_packet(near(), fork_worker{}, all).has_value());
  const auto got = receive_packet(far());
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  EXPECT_EQ(got->descriptors.size(), max_descriptors);
  const std::vector<int> more(max_descriptors + 1, near());
  EXPECT_EQ(code_of(send_packet(near(), fork_worker{}, more)), error_code::invalid_argument);
}

TEST_F(packets, a_layout_of_five_thousand_tensors_fits_one_packet) {
  zygote_ready sent;
  sent.layout = message_source{11}.layout(5000);
  const int before = open_descriptors();
  ASSERT_TRUE(send_packet(near(), sent).has_value());
  const auto got = receive_packet(far());
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  EXPECT_TRUE(testing::same(got->body, sent));
  EXPECT_TRUE(got->descriptors.empty());
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(packets, a_large_message_keeps_its_descriptors) {
  const zygote_configure sent{std::string(max_scenario_bytes, 's'), true};
  ASSERT_TRUE(send_packet(near(), sent, std::array{near(), far()}).has_value());
  const auto got = receive_packet(far());
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  EXPECT_TRUE(testing::same(got->body, sent));
  EXPECT_EQ(got->descriptors.size(), 2u);
}

TEST_F(packets, memory_that_is_not_what_its_reference_says_is_corrupt_and_closed) {
  const unique_fd unsealed{::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  const unique_fd sealed{::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(sealed.get(), 8192), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const int before = open_descriptors();
  const auto answer = [this](std::uint64_t length, std::span<const int> descriptors) {
    send_raw(reference_to(length), descriptors);
    return code_of(receive_packet(far()));
  };
  EXPECT_EQ(answer(8192, {}), error_code::corrupt);
  EXPECT_EQ(answer(8192, std::array{unsealed.get()}), error_code::corrupt);
  EXPECT_EQ(answer(8192, std::array{near()}), error_code::corrupt);  // a socket
  EXPECT_EQ(answer(4096, std::array{sealed.get()}), error_code::corrupt);
  EXPECT_EQ(answer(0, std::array{sealed.get()}), error_code::corrupt);
  EXPECT_EQ(answer(~0ull, std::array{sealed.get()}), error_code::corrupt);
  // Sealed and of the right size, but zeros.
  EXPECT_NE(answer(8192, std::array{sealed.get()}), error_code::internal);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(packets, nothing_to_read_and_no_room_to_write_are_busy) {
  EXPECT_EQ(code_of(receive_packet(far())), error_code::busy);
  result<void> sent;
  int count = 0;
  while ((sent = send_packet(near(), query{})) && count < 10'000'000) ++count;
  EXPECT_EQ(code_of(sent), error_code::busy);
  EXPECT_GT(count, 100);
}

TEST_F(packets, the_end_of_the_channel_has_a_code_of_its_own_on_both_sides) {
  ASSERT_TRUE(send_packet(near(), query{}).has_value());
  near_.reset();
  EXPECT_TRUE(receive_packet(far()).has_value());  // what was sent before is still read
  EXPECT_EQ(code_of(receive_packet(far())), end_of_channel);
  EXPECT_EQ(code_of(receive_packet(far(), in(10s))), end_of_channel);
  EXPECT_EQ(code_of(send_packet(far(), query{})), end_of_channel);
}

TEST_F(packets, garbage_is_an_error_and_its_descriptors_are_closed) {
  const int before = open_descriptors();
  send_raw(std::vector<std::byte>(64, std::byte{0x5A}), std::array{near(), far()});
  EXPECT_EQ(code_of(receive_packet(far())), error_code::corrupt);
  send_raw(std::vector<std::byte>(max_packet_bytes + 8), std::array{near()});
  EXPECT_EQ(code_of(receive_packet(far())), error_code::corrupt);
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_TRUE(send_packet(near(), query{}).has_value());
  EXPECT_TRUE(receive_packet(far()).has_value());  // a packet's error stays with that packet
}

TEST_F(packets, descriptors_that_find_no_number_are_an_error_and_none_leaks) {
  ASSERT_TRUE(send_packet(near(), fork_worker{}, std::vector<int>(7, near())).has_value());
  const int before = open_descriptors();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const int lowest_free = ::dup(near());
  ::close(lowest_free);
  rlimit few = old;
  few.rlim_cur = static_cast<rlim_t>(lowest_free) + 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto got = receive_packet(far());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(code_of(got), error_code::corrupt);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(packets, waiting_for_a_packet_ends_by_its_deadline) {
  EXPECT_EQ(code_of(receive_packet(far(), in(20ms))), error_code::timeout);
  std::thread sender{[this] { (void)send_packet(near(), train{generation_id{4}}); }};
  const auto got = receive_packet(far(), in(60s));
  sender.join();
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  EXPECT_EQ(std::get<train>(got->body).generation, generation_id{4});
}

TEST_F(packets, the_promised_number_of_descriptors_follows_from_the_message) {
  EXPECT_EQ(promised_descriptors(fork_worker{}), 7u);
  EXPECT_EQ(promised_descriptors(worker_forked{}), 1u);
  EXPECT_EQ(promised_descriptors(attach_control{}), 1u);
  EXPECT_EQ(promised_descriptors(query{}), 0u);
  EXPECT_EQ(promised_descriptors(expect_sources{2}), 2u);
  join m;
  m.world_size = 3;
  EXPECT_EQ(promised_descriptors(m), 4u);
  m.role = state_role::receive;
  EXPECT_EQ(promised_descriptors(m), 5u);
}

TEST_F(stream, frames_written_by_one_end_are_read_by_the_other) {
  message_source source{23};
  std::vector<message> sent;
  for (int i = 0; i < 300; ++i) sent.push_back(source.any());
  sent.emplace_back(zygote_configure{std::string(max_scenario_bytes, 's')});  // beyond the buffer
  std::thread writer{[&] {
    for (const auto& m : sent) EXPECT_TRUE(write_frame(near(), m, in(60s)).has_value());
    near_.reset();
  }};
  frame_reader reader;
  std::size_t received = 0;
  result<void> read;
  while ((read = read_available(far(), reader)) || read.error().code == error_code::busy) {
    while (auto m = reader.next()) {
      ASSERT_TRUE(m->has_value()) << m->error().describe();
      ASSERT_LT(received, sent.size());
      ASSERT_TRUE(testing::same(**m, sent[received++]));
    }
  }
  writer.join();
  EXPECT_EQ(code_of(read), end_of_channel);
  EXPECT_EQ(received, sent.size());
}

TEST_F(stream, a_reader_that_does_not_read_costs_the_writer_its_deadline_only) {
  result<void> written;
  int count = 0;
  while (
      (written = write_frame(near(), program_failed{{}, {}, std::string(60'000, 'x')}, in(20ms))))
    ++count;
  EXPECT_EQ(code_of(written), error_code::timeout);
  EXPECT_GT(count, 0);
}

TEST_F(stream, writing_to_a_closed_end_is_the_end_of_the_channel) {
  far_.reset();
  EXPECT_EQ(code_of(write_frame(near(), query{}, in(1s))), end_of_channel);
  frame_reader reader;
  EXPECT_EQ(code_of(read_available(near(), reader)), end_of_channel);
}

TEST_F(stream, nothing_to_read_is_busy) {
  frame_reader reader;
  EXPECT_EQ(code_of(read_available(near(), reader)), error_code::busy);
}

}  // namespace
}  // namespace ftrt::protocol
