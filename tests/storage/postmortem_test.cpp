#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <storage/postmortem.hpp>
#include <storage/private_file.hpp>
#include <storage/report_json.hpp>
#include <storage/shared_words.hpp>
#include <storage/status_file.hpp>
#include <tests/storage/support.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::seeded;

shared_memory fresh() {
  return shared_memory::create("progress", progress_memory_bytes()).value();
}

postmortem_rank rank_at(std::uint32_t rank, std::uint64_t begun, std::uint64_t completed) {
  postmortem_rank one;
  one.rank = rank;
  one.member = one.alive = true;
  one.phase = begun > completed ? "all_reduce" : "compute";
  one.iteration = 77;
  one.committed = 76;
  one.begun = begun;
  one.completed = completed;
  return one;
}

postmortem lost_rank_1() {
  postmortem report;
  report.run_id = "demo-1";
  report.generation = 3;
  report.taken_ms = 1'700'000'000'000;
  report.reason = "rank 1 lost";
  report.ranks = {rank_at(0, 231, 230), rank_at(1, 230, 230), rank_at(2, 233, 230)};
  report.ranks[1].alive = false;
  report.ranks[1].lost = true;
  report.ranks[1].cause = "killed by signal 9 (SIGKILL)";
  report.culprits = {1};
  find_missing(report);
  return report;
}

TEST(postmortem, C07_a_rank_that_did_not_arrive_is_told_from_those_that_waited) {
  const auto report = lost_rank_1();
  EXPECT_EQ(report.collective, 231U);
  EXPECT_THAT(report.waiting, ElementsAre(0, 2));
  EXPECT_THAT(report.missing, ElementsAre(1));
  EXPECT_EQ(headline(report),
            "rank 1 lost: killed by signal 9 (SIGKILL), in compute of iteration 77; it did not "
            "arrive in collective 231, in which ranks 0 and 2 waited");
}

TEST(postmortem, ranks_that_are_equally_far_miss_nobody) {
  postmortem report;
  report.reason = "all wait";
  report.ranks = {rank_at(0, 5, 4), rank_at(1, 5, 4)};
  find_missing(report);
  EXPECT_EQ(report.collective, 0U);
  EXPECT_EQ(headline(report), "all wait");
  // One that computes has left the last one, and nobody waits for it yet.
  report.ranks = {rank_at(0, 5, 5), rank_at(1, 5, 4)};
  find_missing(report);
  EXPECT_EQ(report.collective, 0U);
}

TEST(postmortem, one_that_had_not_entered_the_generation_is_not_missed_in_it) {
  auto report = lost_rank_1();
  report.ranks[1].member = false;
  report.ranks[1].begun = 0;
  find_missing(report);
  EXPECT_THAT(report.missing, ElementsAre(0));
  EXPECT_THAT(headline(report), HasSubstr("before it had entered the generation"));
}

TEST(postmortem, what_a_rank_did_last_is_read_from_its_page_and_its_ring) {
  auto memory = fresh();
  progress_writer writer{memory};
  writer.set_generation(generation_id{3});
  writer.set_phase(train_phase::compute);
  writer.begin_iteration(iteration_id{8});
  writer.begin_collective(12, 4096);
  writer.set_collective_sequence(11);
  for (std::uint64_t k = 1; k <= 40; ++k) {
    progress_record record;
    record.iteration = k;
    record.compute_ns = 2'000'000;
    record.committed_ns = 1'000'000'000;
    record.collective_sequence = 3 * k;
    set_reduced_bytes(record, 1000 + k);
    writer.append(record);
  }
  const auto words = read_last_words(memory, 5);
  ASSERT_EQ(words.records.size(), 5U);
  postmortem_rank rank;
  describe_last_words(rank, words, generation_id{3}, nanoseconds{3'000'000'000});
  EXPECT_TRUE(rank.member);
  EXPECT_EQ(rank.phase, "compute");
  EXPECT_EQ(rank.iteration, 8U);
  EXPECT_EQ(rank.begun, 12U);
  EXPECT_EQ(rank.completed, 11U);
  EXPECT_EQ(rank.reduced_bytes, 4096U);
  ASSERT_EQ(rank.records.size(), 5U);
  EXPECT_EQ(rank.records.back().iteration, 40U);
  EXPECT_EQ(rank.records.back().collectives, 120U);
  EXPECT_EQ(rank.records.back().reduced_bytes, 1040U);
  EXPECT_EQ(rank.records.back().compute_ms, 2.0);
  EXPECT_EQ(rank.records.back().ago_ms, 2000.0);
  describe_last_words(rank, words, generation_id{4}, nanoseconds{0});
  EXPECT_FALSE(rank.member);
}

TEST(postmortem, a_new_generation_counts_its_collectives_anew) {
  auto memory = fresh();
  progress_writer writer{memory};
  writer.begin_collective(12, 4096);
  writer.set_collective_sequence(12);
  writer.set_generation(generation_id{4});
  const auto page = read_last_words(memory, 1).page;
  EXPECT_EQ(page.collective_begun, 0U);
  EXPECT_EQ(page.collective_sequence, 0U);
}

TEST(postmortem, a_hostile_ring_neither_crashes_nor_swells_a_report) {
  seeded random;
  auto memory = fresh();
  const progress_writer formatted{memory};
  const auto words = memory.size() / sizeof(std::uint64_t);
  constexpr std::uint64_t all_ones = std::numeric_limits<std::uint64_t>::max();
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 2000; ++i) word_at(memory.data(), random.below(words)).store(random());
    for (const std::size_t word : {0, 1, 2, 6, 8, 72, 73}) {
      word_at(memory.data(), word).store(random.below(2) == 0 ? random() : all_ones);
    }
    const auto said = read_last_words(memory, 32);
    ASSERT_LE(said.records.size(), 32U);
    postmortem report;
    report.generation = static_cast<std::uint64_t>(round);
    postmortem_rank rank;
    describe_last_words(rank, said, said.page.generation, nanoseconds{1});
    report.ranks = {rank, rank_at(1, 5, 4)};
    find_missing(report);
    const auto text = to_json(report);
    EXPECT_LT(text.size(), 64U * 1024);
    const auto back = parse_postmortem(text);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->ranks.at(0).begun, rank.begun);
    EXPECT_FALSE(headline(*back).empty() && back->collective != 0);
  }
}

class report_files : public ::testing::Test {
 protected:
  test::temporary_folder folder_;
  [[nodiscard]] const fs::path& run() const { return folder_.path(); }
  [[nodiscard]] fs::path file() const { return run() / "postmortem" / "generation-00000003.json"; }
};

TEST_F(report_files, a_report_is_read_back_as_it_was_written) {
  auto report = lost_rank_1();
  postmortem_record record{"iteration", 76, 228, 1 << 20, 1.5, 0.25, 2.5, 3.5};
  report.ranks[0].records = {record, record};
  ASSERT_TRUE(write_postmortem(run(), report));
  const auto back = read_postmortem(run());
  ASSERT_TRUE(back) << back.error().describe();
  EXPECT_EQ(to_json(*back), to_json(report));
  EXPECT_EQ(headline(*back), headline(report));
  EXPECT_TRUE(read_postmortem(run(), 3));
  const auto other = read_postmortem(run(), 4);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, error_code::not_found);
}

TEST_F(report_files, they_are_private_and_the_newest_few_are_kept) {
  auto report = lost_rank_1();
  for (report.generation = 1; report.generation <= 40; ++report.generation) {
    ASSERT_TRUE(write_postmortem(run(), report));
  }
  const auto known = list_postmortems(run());
  EXPECT_EQ(known.size(), 32U);
  EXPECT_EQ(known.front(), 9U);
  EXPECT_EQ(known.back(), 40U);
  for (const auto& entry : fs::directory_iterator{run() / "postmortem"}) {
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_EQ(fs::status(run() / "postmortem").permissions(), fs::perms::owner_all);
}

TEST_F(report_files, a_run_without_losses_says_so) {
  EXPECT_THAT(list_postmortems(run()), IsEmpty());
  const auto none = read_postmortem(run());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, error_code::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("none of its generations has ended by a loss"));
}

TEST_F(report_files, what_is_no_report_is_refused) {
  fs::create_directory(run() / "postmortem");
  for (const std::string text : {"", "[1,2]", "{", "\"x\"", "null"}) {
    std::ofstream{file(), std::ios::trunc} << text;
    const auto read = read_postmortem(run());
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, error_code::corrupt);
  }
  std::ofstream{file(), std::ios::trunc} << "{}";
  fs::resize_file(file(), 9 << 20);
  EXPECT_EQ(read_postmortem(run()).error().code, error_code::corrupt);
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);  // which must not be waited for
  EXPECT_EQ(read_postmortem(run()).error().code, error_code::corrupt);
}

TEST_F(report_files, any_damage_to_a_report_leaves_a_report_or_an_error) {
  seeded random;
  auto report = lost_rank_1();
  report.ranks[0].records.resize(8);
  const auto whole = to_json(report);
  for (int round = 0; round < 3000; ++round) {
    auto text = whole;
    for (auto n = random.below(8) + 1; n > 0; --n) {
      text[random.below(text.size())] = static_cast<char>(random());
    }
    if (random.below(4) == 0) text.resize(random.below(text.size()));
    if (const auto read = parse_postmortem(text)) {
      EXPECT_LE(read->ranks.size(), 3U);
      static_cast<void>(headline(*read));
    }
    static_cast<void>(parse_status(text));
  }
}

TEST_F(report_files, values_of_the_wrong_kind_are_left_out_and_lists_are_bounded) {
  std::string list = "[";
  for (int i = 0; i < 10000; ++i) list += (i > 0 ? ",{}" : "{}");
  list += "]";
  const auto read = parse_postmortem(
      R"({"run_id":7,"generation":-1,"taken_ms":1e300,"culprits":[1,7,-1.5,"x",4294967296],"ranks":)" +
      list + "}");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->run_id, "");
  EXPECT_EQ(read->generation, 0U);
  EXPECT_EQ(read->taken_ms, 0);
  EXPECT_EQ(read->ranks.size(), 4096U);
  EXPECT_THAT(read->culprits, ElementsAre(1, 7));
  EXPECT_EQ(headline(*read), "nobody was lost");
}

TEST_F(report_files, a_status_is_read_back_as_it_was_written) {
  EXPECT_FALSE(find_status(run()));
  run_status status;
  status.written_ms = 1'700'000'000'000;
  status.phase = "training";
  status.generation = 2;
  status.iteration = 400;
  status.samples_per_second = 31250.5;
  status.ranks = {{0, 1, 4711, true, "all_reduce", 401, 400, 0.5, 1.25},
                  {1, 2, 4712, true, "", 0, 0, 0, 0}};
  status.spares = {4713};
  status.stragglers = {{1, 212.5, 11.25, 40, true}};
  ASSERT_TRUE(write_status(run(), status));
  const auto back = find_status(run());
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), to_json(status));
  EXPECT_EQ(fs::status(run() / "status.json").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  forget_status(run());
  EXPECT_FALSE(find_status(run()));
}

TEST_F(report_files, a_link_in_the_place_of_a_file_is_neither_followed_nor_read) {
  std::ofstream{run() / "precious"} << "{}";
  fs::create_symlink(run() / "precious", run() / "status.json");
  EXPECT_FALSE(find_status(run()));
  ASSERT_TRUE(write_status(run(), {}));
  EXPECT_EQ(fs::file_size(run() / "precious"), 2U);
  EXPECT_TRUE(find_status(run()));
}

}  // namespace
}  // namespace ftrt::storage
