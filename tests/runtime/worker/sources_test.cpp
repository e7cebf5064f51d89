#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <runtime/communicator/shm_communicator.hpp>
#include <runtime/worker/membership.hpp>
#include <runtime/worker/source_memories.hpp>
#include <tests/runtime/worker/mini_control.hpp>
#include <tests/support/descriptors.hpp>
#include <tests/support/eventually.hpp>
#include <tests/support/mappings.hpp>
#include <thread>

// The memories that a spare maps before it is needed.
namespace ftrt::worker {
namespace {

using namespace std::chrono_literals;
using storage::shared_memory;
using test::eventually;

constexpr std::size_t size = (4u << 20) + 123;

shared_memory make(std::size_t bytes = size, std::byte value = std::byte{1}) {
  auto memory = shared_memory::create("ftrt-source", bytes).value();
  std::ranges::fill(memory.bytes(), value);
  return memory;
}

unique_fd copy_of(const shared_memory& memory) {
  return memory.fd().duplicate().value();
}

std::vector<unique_fd> list(auto... files) {
  std::vector<unique_fd> all;
  (all.push_back(std::move(files)), ...);
  return all;
}

bool is_mapped(const shared_memory& memory) {
  const auto all = test::foreign_mappings(::getpid(), "ftrt-source");
  return all.contains(test::inode_of(memory.fd().get()));
}

TEST(source_memories, what_is_expected_is_touched_and_found_by_any_descriptor_of_the_file) {
  const auto first = make();
  const auto second = make();
  const auto other = make();
  source_memories sources{size};
  ASSERT_TRUE(sources.expect(list(copy_of(first), copy_of(second))));
  const auto found = sources.find(copy_of(second));
  ASSERT_TRUE(found);
  EXPECT_TRUE(eventually([&] { return found->touched(); }));
  const auto present = test::foreign_mappings(::getpid(), "ftrt-source");
  EXPECT_GE(present.at(test::inode_of(second.fd().get())), size);
  EXPECT_EQ(sources.find(copy_of(other)), nullptr);
  EXPECT_EQ(sources.find(unique_fd{}), nullptr);
}

TEST(source_memories, a_bad_descriptor_is_refused_by_name_and_what_was_expected_stays) {
  const auto good = make();
  const auto small = make(size / 2);
  source_memories sources{size};
  ASSERT_TRUE(sources.expect(list(copy_of(good))));
  const auto why = sources.expect(list(copy_of(good), copy_of(small)));
  ASSERT_FALSE(why);
  EXPECT_EQ(why.error().code, error_code::corrupt);
  EXPECT_NE(why.error().message.find("expected at least"), std::string::npos);
  unique_fd unsealed{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), size), 0);
  const auto also = sources.expect(list(std::move(unsealed)));
  ASSERT_FALSE(also);
  EXPECT_NE(also.error().message.find("not sealed"), std::string::npos);
  EXPECT_FALSE(sources.expect(list(unique_fd{})));
  const auto found = sources.find(copy_of(good));
  ASSERT_TRUE(found);
  EXPECT_TRUE(eventually([&] { return found->touched(); }));
}

TEST(source_memories, what_is_expected_no_more_is_given_back_and_the_rest_is_not_mapped_anew) {
  const auto stays = make();
  const auto goes = make();
  const auto comes = make();
  source_memories sources{size};
  ASSERT_TRUE(sources.expect(list(copy_of(goes), copy_of(stays))));
  const auto before = sources.find(copy_of(stays));
  ASSERT_TRUE(eventually([&] { return before->touched(); }));
  ASSERT_TRUE(is_mapped(goes));
  ASSERT_TRUE(sources.expect(list(copy_of(stays), copy_of(comes))));
  EXPECT_EQ(sources.find(copy_of(stays)), before);
  EXPECT_EQ(sources.find(copy_of(goes)), nullptr);
  EXPECT_TRUE(eventually([&] { return !is_mapped(goes); }));
  EXPECT_TRUE(is_mapped(stays));
  EXPECT_TRUE(eventually([&] { return sources.find(copy_of(comes))->touched(); }));
}

TEST(source_memories, one_that_was_stopped_in_the_midst_of_touching_is_copied_from_its_file) {
  constexpr std::size_t much = 256u << 20;
  auto memory = shared_memory::create("ftrt-source", much).value();
  memory.data()[much - 1] = std::byte{5};
  source_memories sources{much};
  ASSERT_TRUE(sources.expect(list(copy_of(memory))));
  const auto inode = test::inode_of(memory.fd().get());
  const auto present = [&] { return test::foreign_mappings(::getpid(), "ftrt-source").at(inode); };
  ASSERT_TRUE(eventually([&] { return present() > 0; })) << "it has begun";
  sources.stop_touching();
  const auto found = sources.find(copy_of(memory));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->touched());
  std::vector<std::byte> copy(much);
  ASSERT_TRUE(found->copy_to(copy));
  EXPECT_EQ(copy.back(), std::byte{5});
  EXPECT_LT(present(), much) << "neither touched in the background nor by the copy";
}

TEST(source_memories, all_are_given_back_after_the_join_but_none_that_is_in_use) {
  const auto free = make();
  const auto used = make();
  source_memories sources{size};
  ASSERT_TRUE(sources.expect(list(copy_of(free), copy_of(used))));
  auto copied = sources.find(copy_of(used));
  ASSERT_TRUE(eventually([&] { return copied->touched(); }));
  sources.give_back_later();
  EXPECT_EQ(sources.find(copy_of(free)), nullptr);
  sources.give_back_later();  // said twice
  EXPECT_TRUE(eventually([&] { return !is_mapped(free); }));
  std::this_thread::sleep_for(300ms);  // it is the next one's turn
  EXPECT_TRUE(copied->touched()) << "whoever copies from it finds all its pages";
  copied.reset();
  EXPECT_TRUE(eventually([&] { return !is_mapped(used); }));
}

TEST(source_memories, are_gone_with_their_owner_at_whatever_it_is) {
  const auto memory = make();
  {
    source_memories sources{size};
    ASSERT_TRUE(sources.expect(list(copy_of(memory))));
  }
  EXPECT_FALSE(is_mapped(memory));
  {
    source_memories sources{size};
    ASSERT_TRUE(sources.expect(list(copy_of(memory))));
    sources.give_back_later();
  }
  EXPECT_FALSE(is_mapped(memory));
}

class join_from_sources : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = training_program::create(testing::small_scenario());
    ASSERT_TRUE(made);
    program_ = std::move(*made);
    state_ = make(program_->layout().arena_bytes);
    other_ = make(program_->layout().arena_bytes);
    sources_ = std::make_unique<source_memories>(program_->layout().arena_bytes);
    request_.generation = generation_id{2};
    request_.rank = rank_id{1};
    request_.world_size = 2;
    request_.role = protocol::state_role::receive;
  }
  // What control sends beside the join: rank 0 is the source.
  join_command prepare(const source_memories* sources) {
    const auto sync = make(shm_sync_block_bytes(2));
    const auto bucket = make(program_->bucket_bytes());
    return prepare_join(request_,
                        list(copy_of(sync), copy_of(bucket), copy_of(bucket), copy_of(state_)),
                        *program_, rank_id{1}, sources)
        .value();
  }
  std::unique_ptr<training_program> program_;
  shared_memory state_;
  shared_memory other_;
  std::unique_ptr<source_memories> sources_;
  protocol::join request_;
};

TEST_F(join_from_sources, a_join_copies_through_the_mapping_that_was_made_ahead) {
  ASSERT_TRUE(sources_->expect(list(copy_of(other_), copy_of(state_))));
  const auto ahead = sources_->find(copy_of(state_));
  ASSERT_TRUE(eventually([&] { return ahead->touched(); }));
  const auto command = prepare(sources_.get());
  EXPECT_EQ(command.source_state, ahead);
  // Where the file cannot be read any more, only the mapping can.
  ASSERT_TRUE(test::reopen(ahead->fd(), "/dev/null", O_RDONLY));
  std::vector<std::byte> copy(program_->layout().arena_bytes);
  EXPECT_TRUE(command.source_state->copy_to(copy));
  EXPECT_TRUE(std::ranges::equal(copy, state_.bytes()));
}

TEST_F(join_from_sources, a_join_from_a_memory_that_nobody_expected_maps_it_and_reads_the_file) {
  ASSERT_TRUE(sources_->expect(list(copy_of(other_))));
  for (const source_memories* sources : {sources_.get(), static_cast<source_memories*>(nullptr)}) {
    const auto command = prepare(sources);
    ASSERT_TRUE(command.source_state);
    EXPECT_FALSE(command.source_state->touched());
    std::vector<std::byte> copy(program_->layout().arena_bytes);
    EXPECT_TRUE(command.source_state->copy_to(copy));
    EXPECT_TRUE(std::ranges::equal(copy, state_.bytes()));
  }
}

}  // namespace
}  // namespace ftrt::worker
