#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <tests/storage/checkpoint_fixture.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;
using testing::filled_arena;
using testing::header_of;
using testing::parts_of;
using testing::poke;
using testing::seeded;
using testing::small_layout;
using testing::write;

class checkpoint : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path folder(const std::string& name = "0001-1") const {
    return directory_.path() / name;
  }
  [[nodiscard]] static std::size_t open_descriptors() {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator{"/proc/self/fd"}, fs::directory_iterator{}));
  }
  temporary_folder directory_;
};

TEST_F(checkpoint, comes_back_bit_for_bit_in_any_number_of_parts) {
  const auto layout = small_layout();
  const auto original = filled_arena(layout, 7);
  for (std::uint32_t parts = 1; parts <= 12; ++parts) {
    const auto at = folder(std::to_string(parts));
    const auto written = write(at, 7, parts);
    ASSERT_TRUE(written.has_value()) << written.error().describe();
    std::vector<std::byte> arena(layout.arena_bytes);
    const auto loaded = load_checkpoint(at, layout, arena);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
    EXPECT_EQ(arena, original);
    EXPECT_EQ(loaded->iteration, iteration_id{7});
    EXPECT_EQ(loaded->run_id, "run-1");
    EXPECT_EQ(loaded->layout, layout);
    EXPECT_LE(loaded->shards.size(), parts);
    EXPECT_TRUE(verify_checkpoint(at).has_value());
  }
}

TEST_F(checkpoint, tensors_find_their_place_by_name_in_another_layout) {
  auto layout = small_layout();
  ASSERT_TRUE(write(folder(), 7));
  auto tensors = layout.tensors;
  std::ranges::reverse(tensors);
  const auto other = testing::layout_of(tensors);
  std::vector<std::byte> arena(other.arena_bytes);
  ASSERT_TRUE(load_checkpoint(folder(), other, arena));
  EXPECT_EQ(weights_digest(other, arena), weights_digest(layout, filled_arena(layout, 7)));
}

TEST_F(checkpoint, the_manifest_says_which_part_came_from_whom) {
  ASSERT_TRUE(write(folder(), 7, 2));
  const auto manifest = read_manifest(folder()).value();
  ASSERT_EQ(manifest.shards.size(), 2u);
  for (const auto& shard : manifest.shards) {
    EXPECT_EQ(shard.rank.value(), shard.part);
    EXPECT_EQ(shard.incarnation, incarnation_id{1});
    EXPECT_EQ(fs::file_size(folder() / shard.file), shard.bytes);
  }
  EXPECT_EQ(manifest.shards[0].file, "part-00000-of-00002.safetensors");
}

TEST_F(checkpoint, a_part_that_is_missing_doubled_or_of_the_wrong_length_writes_nothing) {
  const auto header = header_of(1);
  const auto arena = filled_arena(header.layout, 1);
  const auto verdict = [&](const std::vector<checkpoint_part>& parts) {
    const auto written = write_checkpoint(folder(), header, parts);
    EXPECT_FALSE(fs::exists(folder()));
    return written ? error_code::internal : written.error().code;
  };
  auto parts = parts_of(header.layout, arena, 3);
  parts.pop_back();
  EXPECT_EQ(verdict(parts), error_code::corrupt);
  parts = parts_of(header.layout, arena, 3);
  parts[1].part = 0;
  EXPECT_EQ(verdict(parts), error_code::invalid_argument);
  parts = parts_of(header.layout, arena, 3);
  parts[0].content = parts[0].content.first(parts[0].content.size() - 1);
  EXPECT_EQ(verdict(parts), error_code::corrupt);
  EXPECT_EQ(verdict({}), error_code::invalid_argument);
}

TEST_F(checkpoint, a_folder_that_holds_one_is_not_written_to_again) {
  ASSERT_TRUE(write(folder(), 1));
  EXPECT_EQ(write(folder(), 2).error().code, error_code::refused);
  EXPECT_EQ(verify_checkpoint(folder())->iteration, iteration_id{1});
}

TEST_F(checkpoint, leftovers_of_a_crash_do_not_get_into_the_next_attempt) {
  fs::create_directory(folder());
  std::ofstream{folder() / "part-00000-of-00009.safetensors"} << "old";
  ASSERT_TRUE(write(folder(), 1));
  EXPECT_FALSE(fs::exists(folder() / "part-00000-of-00009.safetensors"));
}

TEST_F(checkpoint, C14_files_honour_the_umask) {
  const auto old = ::umask(0027);
  ASSERT_TRUE(write(folder(), 1));
  ::umask(old);
  for (const auto& entry : fs::directory_iterator{folder()}) {
    EXPECT_EQ(entry.status().permissions(), fs::perms{0640}) << entry.path();
  }
}

TEST_F(checkpoint, C18_a_flipped_bit_or_a_lost_byte_anywhere_is_found_and_the_file_named) {
  seeded random;
  const auto layout = small_layout();
  const auto manifest = write(folder("good"), 7, 2).value();
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(folder());
    fs::copy(folder("good"), folder());
    const auto& shard = manifest.shards[random.below(2)];
    const auto file = round % 3 == 0 ? folder() / manifest_file : folder() / shard.file;
    const auto size = fs::file_size(file);
    if (round % 5 == 0) {
      fs::resize_file(file, random.below(size));
    } else {
      std::ifstream in{file, std::ios::binary};
      const auto at = random.below(size);
      in.seekg(static_cast<std::streamoff>(at));
      const auto bit = 1u << random.below(8);
      poke(file, at, static_cast<std::byte>(static_cast<unsigned>(in.get()) ^ bit));
    }
    const auto verified = verify_checkpoint(folder());
    ASSERT_FALSE(verified.has_value()) << file;
    EXPECT_TRUE(verified.error().code == error_code::corrupt ||
                verified.error().code == error_code::unsupported);
    if (round % 3 != 0) {
      EXPECT_NE(verified.error().describe().find(shard.file), std::string::npos);
    }
    std::vector<std::byte> arena(layout.arena_bytes, std::byte{0x5a});
    EXPECT_FALSE(load_checkpoint(folder(), layout, arena));
    EXPECT_TRUE(std::ranges::all_of(arena, [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

TEST_F(checkpoint, C18_a_lost_shard_is_damage_and_not_a_missing_checkpoint) {
  const auto manifest = write(folder(), 7, 2).value();
  fs::remove(folder() / manifest.shards[1].file);
  EXPECT_EQ(verify_checkpoint(folder()).error().code, error_code::corrupt);
  EXPECT_EQ(verify_checkpoint(folder("none")).error().code, error_code::not_found);
}

TEST_F(checkpoint, C19_missing_extra_misshapen_and_narrowed_tensors_are_all_named) {
  ASSERT_TRUE(write(folder(), 7, 2));
  auto tensors = small_layout().tensors;
  tensors[0].shape = {9, 16};                                      // mis-shaped
  tensors[2] = testing::tensor(tensors[2].name, dtype::f32, {5});  // narrowed
  tensors[4].name = "optim.fc1.weight.exp_avg";                    // one missing, one extra
  const auto layout = testing::layout_of(tensors);
  std::vector<std::byte> arena(layout.arena_bytes, std::byte{0x5a});
  const auto loaded = load_checkpoint(folder(), layout, arena);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, error_code::invalid_argument);
  const auto text = loaded.error().describe();
  for (const auto* fault : {"'model.fc1.weight' is F32[16,9], expected F32[9,16]",
                            "'model.bn.running_mean' is F64[5], expected F32[5]",
                            "'optim.fc1.weight.exp_avg' is missing",
                            "'optim.fc1.weight.momentum_buffer' is in the checkpoint but not"}) {
    EXPECT_NE(text.find(fault), std::string::npos) << fault << "\n" << text;
  }
  EXPECT_TRUE(std::ranges::all_of(arena, [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(checkpoint, C20_a_hundred_loads_leave_memory_and_descriptors_flat) {
  auto header = header_of(1);
  header.layout = testing::layout_of({testing::tensor("w", dtype::f32, {1 << 20})});
  const auto original = filled_arena(header.layout, 1);
  ASSERT_TRUE(write_checkpoint(folder(), header, parts_of(header.layout, original, 1)));
  std::vector<std::byte> arena(header.layout.arena_bytes);
  const auto resident = [] {
    std::ifstream in{"/proc/self/statm"};
    std::size_t total = 0;
    std::size_t pages = 0;
    in >> total >> pages;
    return pages * 4096;
  };
  const auto load = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(load_checkpoint(folder(), header.layout, arena));
    }
  };
  load(5);
  const auto before = resident();
  const auto descriptors = open_descriptors();
  load(100);
#if !defined(FTRT_SANITIZED)
  EXPECT_LT(resident(), before + (8u << 20));
#else
  static_cast<void>(before);  // sanitizers keep freed memory back on purpose
#endif
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(arena, original);
}

TEST_F(checkpoint, removing_one_takes_all_of_it_and_may_be_repeated) {
  ASSERT_TRUE(write(folder(), 1));
  EXPECT_TRUE(remove_checkpoint(folder()));
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_TRUE(remove_checkpoint(folder()));
}

TEST_F(checkpoint, only_committed_ones_are_found_and_only_leftovers_are_swept) {
  ASSERT_TRUE(write(folder("a"), 1));
  fs::create_directory(folder("b"));
  std::ofstream{folder("b") / "part-00000-of-00001.safetensors"} << "half";
  std::ofstream{folder("a") / "manifest.bin.tmp"} << "half";
  std::ofstream{folder("c.tmp")} << "half";
  EXPECT_EQ(find_checkpoints(directory_.path()), std::vector{folder("a")});
  remove_leftovers(directory_.path());
  EXPECT_FALSE(fs::exists(folder("b")));
  EXPECT_FALSE(fs::exists(folder("c.tmp")));
  EXPECT_FALSE(fs::exists(folder("a") / "manifest.bin.tmp"));
  EXPECT_TRUE(verify_checkpoint(folder("a")).has_value());
  EXPECT_TRUE(find_checkpoints(directory_.path() / "nowhere").empty());
}

}  // namespace
}  // namespace ftrt::storage
