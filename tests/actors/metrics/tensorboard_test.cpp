#include <gtest/gtest.h>
#include <sys/wait.h>

#include <actors/metrics/series.hpp>
#include <actors/metrics/series_filter.hpp>
#include <actors/metrics/tensorboard_writer.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <tests/actors/metrics/metrics_fixture.hpp>
#include <tests/support/command.hpp>
#include <tests/support/environment.hpp>
#include <vector>

namespace ftrt::metrics {
namespace {

using wall_clock = tensorboard_writer::wall_clock;

struct reading {
  int exit_code = -1;
  nlohmann::json series;
};

class tensorboard_test : public metrics_fixture {
 protected:
  // What the real TensorBoard makes of the folder. A missing Python package is a failure, not a
  // reason to skip: then nothing would be tested.
  reading read_back() {
    const auto tree = test::source_tree();
    const auto read =
        test::run_command("PYTHONDONTWRITEBYTECODE=1 " + test::quoted(tree / ".venv/bin/python") +
                          " " + test::quoted(tree / "tests/actors/metrics/read_tensorboard.py") +
                          " " + test::quoted(directory_));
    EXPECT_EQ(read.exit_code, 0)
        << "the reader failed; is the package `tensorboard` in .venv (./tools/setup)?";
    return {read.exit_code, nlohmann::json::parse(read.out, nullptr, false)};
  }

  tensorboard_writer open(std::uint64_t first_step) {
    auto writer = tensorboard_writer::open(directory_, iteration_id{first_step});
    if (!writer) {
      ADD_FAILURE() << writer.error().describe();
      std::abort();
    }
    return std::move(*writer);
  }

  static void add(tensorboard_writer& writer, std::uint64_t step, double value,
                  std::string_view tag = tags::train_loss) {
    const scalar point{tag, value};
    const auto added = writer.add(iteration_id{step}, wall_clock::now(), {&point, 1});
    ASSERT_TRUE(added) << added.error().describe();
  }

  static std::vector<double> values_of(const reading& read, std::string_view tag,
                                       std::uint64_t first_step) {
    std::vector<double> values;
    if (!read.series.contains(tag)) return values;
    for (const auto& point : read.series[std::string{tag}]) {
      EXPECT_EQ(point[0].get<std::uint64_t>(), first_step + values.size());
      values.push_back(point[1].get<double>());
    }
    return values;
  }
};

TEST_F(tensorboard_test, the_real_reader_reads_every_point) {
  {
    auto writer = open(1);
    for (std::uint64_t step = 1; step <= 300; ++step) add(writer, step, 0.5 * step);
    add(writer, 7, 0.9375, tags::test_accuracy);
  }
  const auto read = read_back();
  const auto values = values_of(read, tags::train_loss, 1);
  ASSERT_EQ(values.size(), 300u);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 0.5 * (i + 1.0));
  EXPECT_EQ(read.series["test/accuracy"], nlohmann::json::parse("[[7, 0.9375]]"));
}

TEST_F(tensorboard_test, C34_a_rollback_leaves_one_strictly_increasing_series) {
  series_filter filter{iteration_id{1}};
  {
    auto writer = open(1);
    const auto run = [&](std::uint64_t generation, std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t step = from; step <= to; ++step) {
        for (const auto tag : {tags::train_loss, tags::train_lr}) {
          if (!filter.admit(tag, generation_id{generation}, iteration_id{step})) continue;
          add(writer, step, static_cast<double>(generation), tag);
        }
      }
    };
    const auto rollback = [&](std::uint64_t generation, std::uint64_t first) {
      filter.rollback(generation_id{generation}, iteration_id{first});
      ASSERT_TRUE(writer.restart(iteration_id{first}));
    };
    run(1, 1, 20);
    rollback(2, 11);
    run(1, 15, 22);  // the dead rank's diary, read late
    run(2, 11, 30);
    rollback(3, 26);
    rollback(4, 21);
    run(4, 21, 40);
  }
  const auto read = read_back();
  for (const auto tag : {tags::train_loss, tags::train_lr}) {
    const auto values = values_of(read, tag, 1);
    ASSERT_EQ(values.size(), 40u);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(values[i], i < 10 ? 1 : i < 20 ? 2 : 4);
  }
}

TEST_F(tensorboard_test, C34_a_torn_tail_hides_neither_what_came_before_nor_what_comes_after) {
  std::filesystem::path torn;
  {
    auto writer = open(1);
    for (std::uint64_t step = 1; step <= 10; ++step) add(writer, step, 1);
    torn = writer.file();
  }
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 5);
  {
    auto writer = open(10);
    for (std::uint64_t step = 10; step <= 20; ++step) add(writer, step, 2);
  }
  const auto values = values_of(read_back(), tags::train_loss, 1);
  ASSERT_EQ(values.size(), 20u);
  EXPECT_EQ(values[8], 1);
  EXPECT_EQ(values[9], 2);
}

TEST_F(tensorboard_test, C34_a_second_writer_is_refused_by_name_and_the_folder_is_free_afterwards) {
  {
    auto writer = open(1);
    const auto second = tensorboard_writer::open(directory_, iteration_id{1});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, error_code::busy);
    EXPECT_NE(second.error().message.find(directory_.string()), std::string::npos);
  }
  EXPECT_TRUE(tensorboard_writer::open(directory_, iteration_id{1}));
}

TEST_F(tensorboard_test, each_start_and_each_restart_begins_exactly_one_file) {
  const auto files = [&] {
    std::filesystem::directory_iterator all{directory_};
    return std::distance(begin(all), end(all));
  };
  auto writer = open(5);
  EXPECT_EQ(files(), 1);
  add(writer, 5, 1);
  ASSERT_TRUE(writer.restart(iteration_id{3}));
  EXPECT_EQ(files(), 2);
}

TEST_F(tensorboard_test, what_was_flushed_can_be_read_while_the_writer_goes_on) {
  auto writer = open(1);
  add(writer, 1, 5);
  ASSERT_TRUE(writer.flush(tensorboard_writer::durability::disk));
  EXPECT_EQ(values_of(read_back(), tags::train_loss, 1), std::vector<double>{5});
}

TEST_F(tensorboard_test, when_the_folder_goes_away_a_restart_is_tried_again_by_the_next_flush) {
  auto writer = open(1);
  add(writer, 1, 1);
  ASSERT_TRUE(writer.flush());
  const auto elsewhere = directory_.string() + "-moved";
  std::filesystem::rename(directory_, elsewhere);
  EXPECT_FALSE(writer.restart(iteration_id{1}));
  add(writer, 1, 2);
  EXPECT_FALSE(writer.flush());
  std::filesystem::rename(elsewhere, directory_);
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(values_of(read_back(), tags::train_loss, 1), std::vector<double>{2});
}

TEST(series, an_iteration_gives_its_points_and_an_evaluation_its_own) {
  storage::progress_record record;
  record.generation = 3;
  record.loss = 0.25;
  record.samples = 128;
  record.step_ns = 2'000'000;
  const auto points = points_of(record);
  const auto value = [&](std::string_view tag) {
    for (const auto& point : points) {
      if (point.tag == tag) return point.value;
    }
    return -1.0;
  };
  EXPECT_EQ(value(tags::train_loss), 0.25);
  EXPECT_EQ(value(tags::generation), 3);
  EXPECT_DOUBLE_EQ(value(tags::step_ms), 2.0);
  EXPECT_DOUBLE_EQ(value(tags::samples_per_second), 64000.0);

  record.kind = storage::record_kind::evaluation;
  record.accuracy = 0.5;
  ASSERT_EQ(points_of(record).size(), 2u);
  EXPECT_EQ(points_of(record)[1].tag, tags::test_accuracy);
}

TEST(series, a_hostile_record_gives_no_points) {
  storage::progress_record record;
  record.kind = static_cast<storage::record_kind>(77);
  EXPECT_TRUE(points_of(record).empty());
  record.kind = storage::record_kind::iteration;
  record.step_ns = -1;
  for (const auto& point : points_of(record)) EXPECT_NE(point.tag, tags::samples_per_second);
}

}  // namespace
}  // namespace ftrt::metrics
