#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <memory>
#include <runtime/worker/control_link.hpp>
#include <runtime/worker/generation_gate.hpp>
#include <runtime/worker/mailbox.hpp>
#include <runtime/worker/placement.hpp>
#include <runtime/worker/report_book.hpp>
#include <runtime/worker/training_outbox.hpp>
#include <schemas/protocol/channel.hpp>
#include <set>
#include <thread>

namespace ftrt::worker {
namespace {

// Counts its aborts; every collective is beside the point here.
class counted_communicator : public communicator {
 public:
  counted_communicator(std::uint64_t generation, int& aborts)
      : generation_(generation), aborts_(aborts) {}
  rank_id rank() const override { return {}; }
  std::uint32_t world_size() const override { return 1; }
  generation_id generation() const override { return generation_id{generation_}; }
  result<void> begin_all_reduce(const bucket_region&, reduce_op) override { return {}; }
  result<void> finish_reductions() override { return {}; }
  result<void> reduce_scatter(const bucket_region&, reduce_op) override { return {}; }
  result<void> all_gather(const bucket_region&) override { return {}; }
  result<void> broadcast(std::span<std::byte>, rank_id) override { return {}; }
  result<void> send(std::span<const std::byte>, rank_id) override { return {}; }
  result<void> recv(std::span<std::byte>, rank_id) override { return {}; }
  result<void> barrier() override { return {}; }
  result<void> exchange(std::uint64_t, std::span<const std::byte>, std::span<std::byte>) override {
    return {};
  }
  bool exchanged(std::uint64_t, std::span<std::byte>) override { return false; }
  result<void> check() override { return {}; }
  std::uint64_t sequence() const override { return 0; }
  std::vector<rank_id> lost_peers() const override { return {}; }
  void abort() noexcept override { ++aborts_; }

 private:
  std::uint64_t generation_;
  int& aborts_;
};

int cores_of_this_thread(cpu_set_t& cores) {
  EXPECT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  return CPU_COUNT(&cores);
}

TEST(core_hold, keeps_each_rank_on_a_core_of_its_own_and_then_lets_go) {
  cpu_set_t before;
  const auto count = static_cast<std::uint32_t>(cores_of_this_thread(before));
  std::set<int> taken;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const core_hold hold{rank_id{rank}, count};
    cpu_set_t held;
    EXPECT_EQ(cores_of_this_thread(held), 1);
    EXPECT_TRUE(CPU_ISSET(::sched_getcpu(), &held));
    EXPECT_TRUE(taken.insert(::sched_getcpu()).second) << "of another rank";
  }
  cpu_set_t after;
  cores_of_this_thread(after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(core_hold, leaves_more_ranks_than_cores_to_the_kernel) {
  cpu_set_t before;
  const auto count = static_cast<std::uint32_t>(cores_of_this_thread(before));
  const core_hold hold{rank_id{0}, count + 1};
  cpu_set_t held;
  cores_of_this_thread(held);
  EXPECT_TRUE(CPU_EQUAL(&before, &held));
}

TEST(generation_gate, a_revoke_aborts_the_communicator_that_is_published) {
  generation_gate gate;
  int aborts = 0;
  ASSERT_TRUE(gate.publish(std::make_shared<counted_communicator>(3, aborts)));
  gate.revoke(generation_id{2});
  EXPECT_EQ(aborts, 0);
  gate.revoke(generation_id{3});
  EXPECT_EQ(aborts, 1);
  gate.withdraw();
  gate.revoke(generation_id{4});
  EXPECT_EQ(aborts, 1);
}

TEST(generation_gate, a_revoke_that_comes_before_the_communicator_wins) {
  generation_gate gate;
  int aborts = 0;
  gate.revoke(generation_id{3});
  EXPECT_FALSE(gate.publish(std::make_shared<counted_communicator>(3, aborts)));
  EXPECT_EQ(aborts, 1);
  EXPECT_TRUE(gate.publish(std::make_shared<counted_communicator>(4, aborts)));
  EXPECT_TRUE(gate.is_revoked(generation_id{3}));
  EXPECT_FALSE(gate.is_revoked(generation_id{4}));
  EXPECT_EQ(aborts, 1);
}

TEST(generation_gate, an_older_revoke_takes_nothing_back) {
  generation_gate gate;
  gate.revoke(generation_id{5});
  gate.revoke(generation_id{2});
  EXPECT_TRUE(gate.is_revoked(generation_id{5}));
}

TEST(mailbox, is_bounded_and_keeps_order_and_close_ends_a_wait) {
  mailbox<int> box{2};
  EXPECT_TRUE(box.push(1));
  EXPECT_TRUE(box.push(2));
  EXPECT_FALSE(box.push(3));
  EXPECT_EQ(box.pop(), 1);
  EXPECT_EQ(box.pop(), 2);
  std::thread reader{[&] { EXPECT_EQ(box.pop(), std::nullopt); }};
  box.close();
  reader.join();
  EXPECT_FALSE(box.push(4));
}

protocol::snapshot_ready snapshot(std::uint64_t iteration) {
  protocol::snapshot_ready ready;
  ready.iteration = iteration_id{iteration};
  return ready;
}

TEST(training_outbox, wakes_its_reader_and_keeps_the_newest_snapshots_only) {
  auto outbox = training_outbox::create();
  ASSERT_TRUE(outbox);
  pollfd fd{(*outbox)->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
  (*outbox)->push(protocol::joined{});
  for (std::uint64_t i = 1; i <= 20; ++i) (*outbox)->push(snapshot(i));
  EXPECT_EQ(::poll(&fd, 1, 0), 1);
  const auto events = (*outbox)->drain();
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
  ASSERT_EQ(events.size(), 1 + training_outbox::max_snapshots);
  EXPECT_TRUE(std::holds_alternative<protocol::joined>(events.front()));
  EXPECT_EQ(std::get<protocol::snapshot_ready>(events[1]).iteration, iteration_id{13});
  EXPECT_EQ(std::get<protocol::snapshot_ready>(events.back()).iteration, iteration_id{20});
}

TEST(report_book, says_the_latest_report_after_every_hello_until_a_command_makes_it_old) {
  report_book book;
  book.note(protocol::joined{generation_id{1}, {}, ""}, true);
  book.note(protocol::finished{}, true);
  ASSERT_EQ(book.after_hello().size(), 1u);
  ASSERT_EQ(book.after_hello().size(), 1u);
  EXPECT_TRUE(std::holds_alternative<protocol::finished>(book.after_hello()[0]));
  book.forget_reports();
  EXPECT_TRUE(book.after_hello().empty());
}

TEST(report_book, keeps_the_newest_snapshots_that_nobody_was_there_for_and_hands_them_over_once) {
  report_book book;
  book.note(snapshot(1), true);
  for (std::uint64_t i = 2; i <= 20; ++i) book.note(snapshot(i), false);
  book.note(protocol::peer_lost{generation_id{1}, {rank_id{1}}}, false);
  const auto messages = book.after_hello();
  ASSERT_EQ(messages.size(), report_book::max_snapshots + 1);
  EXPECT_EQ(std::get<protocol::snapshot_ready>(messages[0]).iteration, iteration_id{13});
  EXPECT_TRUE(std::holds_alternative<protocol::peer_lost>(messages.back()));
  EXPECT_EQ(book.after_hello().size(), 1u);
}

class control_link_test : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ends = protocol::socket_pair(SOCK_STREAM);
    ASSERT_TRUE(ends);
    other_ = std::move(ends->first);
    link_ = control_link{std::move(ends->second)};
  }
  unique_fd other_;
  control_link link_;
};

TEST_F(control_link_test, an_actor_that_does_not_read_costs_a_bounded_amount_and_then_the_link) {
  protocol::program_failed large;
  large.text = std::string(4000, 'x');
  int sent = 0;
  while (link_.up() && sent < 100000) {
    link_.send(large);
    ++sent;
  }
  EXPECT_FALSE(link_.up());
  EXPECT_GT(sent, 200);
  EXPECT_FALSE(link_.has_pending());
}

TEST_F(control_link_test, what_was_said_before_the_end_is_heard) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  ASSERT_TRUE(protocol::write_frame(other_.get(), protocol::query{}, until));
  ASSERT_TRUE(protocol::write_frame(other_.get(), protocol::request_stop{}, until));
  other_.reset();
  std::vector<std::string> heard;
  while (link_.on_readable([&](const auto& m) { heard.emplace_back(protocol::name_of(m)); })) {
  }
  EXPECT_FALSE(link_.up());
  EXPECT_EQ(heard, (std::vector<std::string>{"query", "request_stop"}));
}

}  // namespace
}  // namespace ftrt::worker
