#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <storage/catalog.hpp>
#include <storage/checkpoint.hpp>
#include <storage/shared_memory.hpp>
#include <storage/shared_words.hpp>
#include <tests/storage/checkpoint_fixture.hpp>
#include <tests/storage/simulated_files.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using test::temporary_folder;
using testing::child_process;
using testing::failing_files;
using testing::seeded;
using testing::signal_pipe;
using testing::simulated_files;

constexpr auto no_limit = std::numeric_limits<std::size_t>::max();

// Iterations of the committed checkpoints under a folder. Each of them must be whole: a manifest
// beside anything less is what must never be.
std::set<std::uint64_t> whole_checkpoints(const fs::path& checkpoints) {
  std::set<std::uint64_t> found;
  const auto layout = testing::small_layout();
  for (const auto& folder : find_checkpoints(checkpoints)) {
    std::vector<std::byte> arena(layout.arena_bytes);
    const auto loaded = load_checkpoint(folder, layout, arena);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().describe();
    if (!loaded) continue;
    EXPECT_EQ(arena, testing::filled_arena(layout, loaded->iteration.value()));
    found.insert(loaded->iteration.value());
  }
  return found;
}

struct outcome {
  bool written = false;
  bool pruned = false;
};

// A checkpoint is there; another one is published and the first one pruned. The power fails after
// `budget` operations of this.
outcome publish_and_prune(simulated_files& files, const fs::path& root, std::size_t budget) {
  EXPECT_TRUE(files.make_directory(root / "checkpoints"));
  EXPECT_TRUE(files.sync_directory(root));
  EXPECT_TRUE(testing::write(root / "checkpoints" / "100", 100, 2, files));
  const auto before = files.operations();
  files.set_budget(budget == no_limit ? no_limit : before + budget);
  outcome result;
  result.written = testing::write(root / "checkpoints" / "200", 200, 3, files).has_value();
  if (result.written) {
    result.pruned = remove_checkpoint(root / "checkpoints" / "100", files).has_value();
  }
  return result;
}

TEST(crash, C10_a_power_cut_after_any_operation_leaves_a_loadable_committed_checkpoint) {
  seeded random;
  std::size_t total = 0;
  {
    const temporary_folder root;
    simulated_files files{root.path()};
    ASSERT_TRUE(publish_and_prune(files, root.path(), no_limit).pruned);
    total = files.operations();
  }
  for (std::size_t budget = 0; budget <= total; ++budget) {
    for (int fate = 0; fate < 8; ++fate) {
      SCOPED_TRACE("operation " + std::to_string(budget));
      const temporary_folder root{"/dev/shm"};
      simulated_files files{root.path()};
      const auto done = publish_and_prune(files, root.path(), budget);
      files.materialise(random);
      const auto checkpoints = root.path() / "checkpoints";
      const auto found = whole_checkpoints(checkpoints);
      ASSERT_FALSE(found.empty());
      if (done.written) {
        EXPECT_TRUE(found.contains(200));
      } else {
        EXPECT_TRUE(found.contains(100));
      }
      if (done.pruned) {
        EXPECT_FALSE(found.contains(100));
      }
      remove_leftovers(checkpoints);
      EXPECT_EQ(whole_checkpoints(checkpoints), found);
      for (const auto& name : system_files().list(checkpoints)) {
        EXPECT_TRUE(found.contains(std::stoull(name))) << "left over: " << name;
      }
    }
  }
}

TEST(crash, the_simulated_disk_does_lose_what_was_not_synced) {
  seeded random;
  const std::vector<std::byte> text(100, std::byte{'x'});
  std::set<std::string> fates;
  for (int round = 0; round < 200; ++round) {
    const temporary_folder root{"/dev/shm"};
    simulated_files files{root.path()};
    // As many a program does it: no fsync before the rename.
    auto out = files.create(root.path() / "a.tmp").value();
    ASSERT_TRUE(out->write(text));
    ASSERT_TRUE(files.rename(root.path() / "a.tmp", root.path() / "a"));
    ASSERT_TRUE(files.sync_directory(root.path()));
    files.materialise(random);
    const auto found = read_file(root.path() / "a", 1000).value();
    fates.insert(found.empty()        ? "empty"
                 : found == text      ? "whole"
                 : found.size() < 100 ? "cut"
                                      : "zeros");
  }
  EXPECT_EQ(fates, (std::set<std::string>{"empty", "whole", "cut", "zeros"}));
}

TEST(crash, C14_a_full_or_failing_disk_leaves_the_previous_checkpoint_and_no_temporaries) {
  const temporary_folder root;
  ASSERT_TRUE(testing::write(root.path() / "100", 100));
  failing_files counting{no_limit, error_code::io};
  ASSERT_TRUE(testing::write(root.path() / "150", 150, 3, counting));
  ASSERT_TRUE(remove_checkpoint(root.path() / "150"));
  ASSERT_GT(counting.operations(), 15u);
  for (const auto code : {error_code::no_space, error_code::io}) {
    for (std::size_t at = 0; at < counting.operations(); ++at) {
      SCOPED_TRACE("operation " + std::to_string(at));
      failing_files files{at, code};
      const auto written = testing::write(root.path() / "200", 200, 3, files);
      ASSERT_FALSE(written.has_value());
      EXPECT_EQ(written.error().code, code);
      EXPECT_EQ(system_files().list(root.path()), std::vector<std::string>{"100"});
      EXPECT_EQ(whole_checkpoints(root.path()), std::set<std::uint64_t>{100});
    }
  }
  EXPECT_TRUE(testing::write(root.path() / "200", 200));
}

// Publishes checkpoint after checkpoint, keeps two, and says in `published` how far it came.
int publish_for_ever(const fs::path& checkpoints, const shared_memory& published) {
  auto last = word_at(published.data(), 0);
  for (auto next = last.load() + 1;; ++next) {
    const auto name = std::to_string(next);
    // The one before us may have committed it and died before it could say so.
    const auto written = testing::write(checkpoints / name, next);
    if (!written && written.error().code != error_code::refused) return 1;
    last.store(next);
    if (next > 2 && !remove_checkpoint(checkpoints / std::to_string(next - 2))) return 2;
  }
}

TEST(crash, C10_200_kills_at_random_moments_always_leave_a_loadable_committed_checkpoint) {
  seeded random;
  const temporary_folder root{"/dev/shm"};
  const auto published = shared_memory::create("published", 4096).value();
  // How long one takes here, so that most kills fall into the first few of a life.
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(testing::write(root.path() / "1", 1));
  const auto one = std::chrono::steady_clock::now() - start;
  word_at(published.data(), 0).store(1);
  std::uint64_t interrupted = 0;
  for (int kill = 0; kill < 200; ++kill) {
    const signal_pipe begun;
    child_process writer{[&] {
      begun.say();
      return publish_for_ever(root.path(), published);
    }};
    begun.wait();
    const auto moment = std::chrono::steady_clock::now() +
                        one * static_cast<std::int64_t>(random.below(5000)) / 1000;
    while (std::chrono::steady_clock::now() < moment) {
    }
    writer.kill();
    const auto last = word_at(published.data(), 0).load();
    const auto found = whole_checkpoints(root.path());
    ASSERT_TRUE(found.contains(last)) << "kill " << kill;
    const auto names = system_files().list(root.path());
    interrupted += names.size() != found.size() ? 1 : 0;
  }
  RecordProperty("kills_in_mid_write", static_cast<int>(interrupted));
  EXPECT_GT(interrupted, 0u) << "no kill fell into a write: the test proves nothing";
  remove_leftovers(root.path());
  EXPECT_EQ(system_files().list(root.path()).size(), whole_checkpoints(root.path()).size());
}

}  // namespace
}  // namespace ftrt::storage
