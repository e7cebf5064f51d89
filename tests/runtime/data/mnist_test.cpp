#include <gmock/gmock.h>
#include <stdlib.h>
#include <zlib.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <runtime/data/dataset.hpp>
#include <runtime/data/mnist.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using bytes = std::vector<std::uint8_t>;

bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& shape, const bytes& content) {
  bytes file;
  const auto word = [&file](std::uint32_t w) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      file.push_back(static_cast<std::uint8_t>(w >> shift));
    }
  };
  word(magic);
  for (const auto extent : shape) word(extent);
  file.insert(file.end(), content.begin(), content.end());
  return file;
}

void write(const fs::path& path, const bytes& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
}

void write_gzip(const fs::path& path, const bytes& content) {
  gzFile out = ::gzopen(path.c_str(), "wb");
  ASSERT_EQ(::gzwrite(out, content.data(), static_cast<unsigned>(content.size())),
            static_cast<int>(content.size()));
  ::gzclose(out);
}

// A folder with a small data set of MNIST's form: 12 samples to train on, 5 to test on.
class mnist_files : public ::testing::Test {
 protected:
  void SetUp() override {
    write(images("train"), image_file(12));
    write(labels("train"), label_file(12));
    write(images("t10k"), image_file(5));
    write(labels("t10k"), label_file(5));
  }

  fs::path images(const std::string& stem) const { return folder_ / (stem + "-images-idx3-ubyte"); }
  fs::path labels(const std::string& stem) const { return folder_ / (stem + "-labels-idx1-ubyte"); }

  static bytes image_file(std::uint32_t count) {
    bytes pixels(count * 784U);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 251);
    return idx(0x803, {count, 28, 28}, pixels);
  }
  static bytes label_file(std::uint32_t count) {
    bytes classes(count);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::uint8_t>(i % 10);
    return idx(0x801, {count}, classes);
  }

  // The one fault that opening the folder reports.
  diagnostic fault() const {
    const auto opened = open_mnist(folder_);
    if (opened) {
      ADD_FAILURE() << "opened";
      return {};
    }
    EXPECT_EQ(opened.error().size(), 1U);
    return opened.error().front();
  }
  void expect_fault(const fs::path& file, const std::string& expected,
                    const std::string& found) const {
    const auto d = fault();
    EXPECT_EQ(d.file, file.string());
    EXPECT_THAT(d.expected, HasSubstr(expected));
    EXPECT_THAT(d.found, HasSubstr(found));
  }

  const test::temporary_folder temporary_;
  const fs::path& folder_ = temporary_.path();
};

void expect_rows(const dataset& samples, const std::vector<std::uint32_t>& ids) {
  std::vector<float> rows(ids.size() * 784);
  std::vector<std::int64_t> classes(ids.size());
  samples.gather(ids, rows, classes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(classes[i], ids[i] % 10);
    for (const std::size_t j : {0U, 1U, 400U, 783U}) {
      const auto pixel = static_cast<float>((ids[i] * 784 + j) % 251);
      EXPECT_NEAR(rows[i * 784 + j], (pixel / 255 - 0.1307F) / 0.3081F, 1e-6);
    }
  }
}

TEST_F(mnist_files, plain_files_are_read_row_by_row) {
  const auto opened = open_mnist(folder_);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->train->size(), 12U);
  EXPECT_EQ(opened->test->size(), 5U);
  expect_rows(*opened->train, {11, 0, 7});
}

TEST_F(mnist_files, C31_gzip_is_recognised_by_its_content_whatever_the_name) {
  write_gzip(images("train"), image_file(12));
  fs::remove(labels("train"));
  write_gzip(labels("train").string() + ".gz", label_file(12));
  const auto opened = open_mnist(folder_);
  ASSERT_TRUE(opened) << opened.error().front().describe();
  expect_rows(*opened->train, {3, 4});
}

TEST_F(mnist_files, names_with_a_dot_are_found_too) {
  fs::rename(images("train"), folder_ / "train-images.idx3-ubyte");
  EXPECT_TRUE(open_mnist(folder_));
}

TEST_F(mnist_files, C31_a_missing_file_names_the_way_to_fetch_it) {
  fs::remove(labels("t10k"));
  const auto d = fault();
  EXPECT_EQ(d.file, labels("t10k").string());
  EXPECT_THAT(d.hint, HasSubstr("./tools/run"));
}

TEST_F(mnist_files, C31_a_wrong_magic_is_shown) {
  auto content = image_file(12);
  content[2] = 0x0d;
  write(images("train"), content);
  expect_fault(images("train"), "0x00000803", "0x00000d03");
}

TEST_F(mnist_files, C31_labels_where_images_belong) {
  write(images("train"), label_file(12));
  expect_fault(images("train"), "0x00000803", "(labels)");
}

TEST_F(mnist_files, C31_a_byte_swapped_header) {
  auto content = image_file(12);
  std::reverse(content.begin(), content.begin() + 4);
  write(images("train"), content);
  expect_fault(images("train"), "0x00000803", "byte-swapped");
}

TEST_F(mnist_files, C31_a_truncated_file) {
  auto content = image_file(12);
  content.resize(content.size() - 100);
  write(images("train"), content);
  expect_fault(images("train"), "9408 bytes", "9308 (truncated file)");
}

TEST_F(mnist_files, C31_a_file_that_ends_in_its_header) {
  auto content = image_file(12);
  content.resize(10);
  write(images("train"), content);
  expect_fault(images("train"), "header of 16 bytes", "10 bytes");
}

TEST_F(mnist_files, C31_trailing_bytes) {
  auto content = label_file(5);
  content.push_back(0);
  write(labels("t10k"), content);
  expect_fault(labels("t10k"), "5 bytes", "6 (trailing bytes)");
}

TEST_F(mnist_files, C31_an_empty_file) {
  write(labels("t10k"), {});
  expect_fault(labels("t10k"), "an IDX file", "an empty file");
}

TEST_F(mnist_files, C31_counts_that_disagree) {
  write(labels("train"), label_file(11));
  expect_fault(labels("train"), "12", "11");
}

TEST_F(mnist_files, C31_label_10) {
  auto content = label_file(12);
  content[8 + 6] = 10;
  write(labels("train"), content);
  expect_fault(labels("train"), "0 to 9", "label 10 at sample 6");
}

TEST_F(mnist_files, C31_images_of_another_size) {
  write(images("t10k"), idx(0x803, {5, 32, 32}, bytes(5 * 1024)));
  expect_fault(images("t10k"), "28 x 28", "32 x 32");
}

TEST_F(mnist_files, C31_dimensions_that_overflow) {
  write(images("t10k"), idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, bytes(64)));
  expect_fault(images("t10k"), "dimensions", "4294967295");
}

TEST_F(mnist_files, C31_a_gzip_file_cut_short) {
  write_gzip(images("train"), image_file(12));
  fs::resize_file(images("train"), fs::file_size(images("train")) - 9);
  expect_fault(images("train"), "a whole gzip stream", "damaged or cut short");
}

TEST_F(mnist_files, C31_gzip_of_too_little) {
  auto content = image_file(12);
  content.resize(5000);
  write_gzip(images("train"), content);
  expect_fault(images("train"), "9408 bytes", "truncated");
}

TEST_F(mnist_files, C31_a_directory_in_a_files_place) {
  fs::remove(images("train"));
  fs::create_directory(images("train"));
  expect_fault(images("train"), "a regular file", "a directory");
}

TEST_F(mnist_files, a_fifo_in_a_files_place_blocks_nobody) {
  fs::remove(images("train"));
  ASSERT_EQ(std::system(("mkfifo " + images("train").string()).c_str()), 0);
  expect_fault(images("train"), "a regular file", "something else");
}

TEST_F(mnist_files, no_folder_at_all) {
  fs::remove_all(folder_);
  EXPECT_EQ(fault().found, "no such folder");
}

TEST_F(mnist_files, all_faults_of_all_files_are_reported_at_once) {
  write(images("train"), label_file(12));
  fs::remove(labels("train"));
  write(labels("t10k"), label_file(4));
  const auto opened = open_mnist(folder_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().size(), 3U);
}

scenario synthetic() {
  scenario s;
  s.data.kind = "synthetic";
  s.model.layers = {8, 3};
  s.data.samples = 100;
  return s;
}

TEST(data, C32_fewer_samples_than_a_batch_are_refused_with_the_numbers) {
  auto s = synthetic();
  s.cluster.ranks = 3;
  s.train.global_batch = 128;
  s.train.micro_batch = 32;
  const auto opened = open_data(s);
  ASSERT_FALSE(opened);
  const auto text = opened.error().front().describe();
  for (const char* part : {"100", "128", "3 ranks", "4 micro-batches of 32"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(data, C32_the_limit_counts) {
  auto s = synthetic();
  s.train.global_batch = 50;
  EXPECT_TRUE(open_data(s));
  s.data.limit = 49;
  EXPECT_FALSE(open_data(s));
}

TEST(data, synthetic_samples_are_a_function_of_seed_and_id) {
  const auto s = synthetic();
  const auto read = [](scenario values, std::uint32_t id, bool test) {
    values.train.global_batch = 10;
    const auto splits = open_data(values);
    std::vector<float> row(8);
    std::int64_t label = 0;
    (test ? splits->test : splits->train)->gather({&id, 1}, row, {&label, 1});
    row.push_back(static_cast<float>(label));
    return row;
  };
  EXPECT_EQ(read(s, 5, false), read(s, 5, false));
  EXPECT_NE(read(s, 5, false), read(s, 6, false));
  EXPECT_NE(read(s, 5, false), read(s, 5, true));
  auto other = s;
  other.run.seed = 2;
  EXPECT_NE(read(s, 5, false), read(other, 5, false));
}

}  // namespace
}  // namespace ftrt::data
