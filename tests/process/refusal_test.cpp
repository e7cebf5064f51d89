// Broken scenarios and broken data: a clear message, exit code 2, nothing left behind.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

namespace fs = std::filesystem;

struct broken_scenario {
  std::string name;
  std::string text;                   // appended to a good [run] and [cluster]
  std::vector<std::string> expected;  // all in standard error
};

void PrintTo(const broken_scenario& s, std::ostream* out) {
  *out << s.name;
}

class a_broken_scenario : public ::testing::TestWithParam<broken_scenario> {};

TEST_P(a_broken_scenario, is_refused_with_the_place_and_leaves_nothing_behind) {
  const scratch_folder folder;
  const auto file = folder.path() / "broken.toml";
  std::ofstream{file} << GetParam().text;
  const auto done = train(folder.path(), file);
  EXPECT_EQ(done.exit_code, 2) << done.err;
  for (const auto& part : GetParam().expected) {
    EXPECT_NE(done.err.find(part), std::string::npos) << "not said: " << part << "\n" << done.err;
  }
  EXPECT_FALSE(fs::exists(folder.path() / "runs"));
}

const std::string good_head = "[data]\nkind = \"synthetic\"\nsamples = 512\n";
const std::string good_model = "[model]\nkind = \"mlp\"\nlayers = [64, 10]\n";

INSTANTIATE_TEST_SUITE_P(
    process, a_broken_scenario,
    ::testing::Values(
        broken_scenario{"misspelt_key",
                        good_head + good_model + "[train]\nmomentun = 0.9\n",
                        {"broken.toml:8", "momentun", "momentum"}},
        broken_scenario{"misspelt_table",
                        good_head + good_model + "[trian]\nlr = 0.1\n",
                        {"broken.toml:7", "trian", "train"}},
        broken_scenario{"misplaced_key",
                        good_head + good_model + "[cluster]\nlr = 0.1\n",
                        {"broken.toml:8", "lr", "train"}},
        broken_scenario{"wrong_type",
                        good_head + good_model + "[train]\nlr = \"fast\"\n",
                        {"broken.toml:8", "train.lr", "fast"}},
        broken_scenario{"out_of_range",
                        good_head + good_model + "[train]\nlr = -0.1\n",
                        {"broken.toml:8", "train.lr", "-0.1"}},
        broken_scenario{"negative_count",
                        good_head + good_model + "[train]\nmicro_batch = -4\n",
                        {"broken.toml:8", "train.micro_batch", "-4"}},
        broken_scenario{"duration_without_unit",
                        good_head + good_model + "[supervision]\ngrace_period = 3\n",
                        {"broken.toml:8", "supervision.grace_period", "3"}},
        broken_scenario{"keep_nothing",
                        good_head + good_model + "[checkpoint]\nkeep_last = 0\n",
                        {"broken.toml:8", "checkpoint.keep_last"}},
        broken_scenario{"more_ranks_than_micro_batches",
                        good_head + good_model +
                            "[cluster]\nranks = 9\n[train]\nglobal_batch = 64\nmicro_batch = 32\n",
                        {"cluster.ranks", "9"}},
        broken_scenario{"no_toml", "[run\nname = ", {"broken.toml:1"}},
        broken_scenario{
            "chaos_for_a_rank_that_is_not_there",
            good_head + good_model + "[[chaos]]\nkind = \"kill\"\nrank = 7\nat_iteration = 3\n",
            {"chaos", "7"}},
        broken_scenario{"two_faults_told_at_once",
                        good_head + good_model + "[train]\nlr = -1\nepochs = \"five\"\n",
                        {"broken.toml:8", "broken.toml:9"}}),
    [](const auto& each) { return each.param.name; });

// ---- data
// ----------------------------------------------------------------------------------------

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string images(std::uint32_t count) {
  return big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28) +
         std::string(count * 784, '\x40');
}
std::string labels(std::uint32_t count, char label = 3) {
  return big_endian(0x801) + big_endian(count) + std::string(count, label);
}

struct data_files {
  std::string train_images = images(256);
  std::string train_labels = labels(256);
  std::string test_images = images(64);
  std::string test_labels = labels(64);
};

struct broken_data {
  std::string name;
  std::function<void(data_files&)> damage;
  std::vector<std::string> expected;
};

void PrintTo(const broken_data& d, std::ostream* out) {
  *out << d.name;
}

class C31_broken_data : public ::testing::TestWithParam<broken_data> {};

void write(const fs::path& file, const std::string& content) {
  if (!content.empty()) std::ofstream{file, std::ios::binary} << content;
}

TEST_P(C31_broken_data, is_refused_before_any_rank_starts_and_leaves_nothing_behind) {
  const scratch_folder folder;
  data_files files;
  GetParam().damage(files);
  write(folder.path() / "train-images.idx3-ubyte", files.train_images);
  write(folder.path() / "train-labels.idx1-ubyte", files.train_labels);
  write(folder.path() / "t10k-images.idx3-ubyte", files.test_images);
  write(folder.path() / "t10k-labels.idx1-ubyte", files.test_labels);
  const auto done = train(folder.path(), scenarios() / "mnist.toml",
                          {"data.path=\"" + folder.path().string() + "\""});
  EXPECT_EQ(done.exit_code, 2) << done.err;
  for (const auto& part : GetParam().expected) {
    EXPECT_NE(done.err.find(part), std::string::npos) << "not said: " << part << "\n" << done.err;
  }
  EXPECT_FALSE(fs::exists(folder.path() / "runs"));
}

INSTANTIATE_TEST_SUITE_P(
    process, C31_broken_data,
    ::testing::Values(
        broken_data{"missing_file",
                    [](auto& f) { f.train_labels.clear(); },
                    {"train-labels", "./tools/run"}},
        broken_data{"truncated_images",
                    [](auto& f) { f.train_images.resize(1000); },
                    {"train-images.idx3-ubyte", "200704", "984"}},
        broken_data{
            "trailing_bytes", [](auto& f) { f.test_labels += "xx"; }, {"t10k-labels.idx1-ubyte"}},
        broken_data{
            "counts_disagree", [](auto& f) { f.train_labels = labels(200); }, {"256", "200"}},
        broken_data{"label_ten",
                    [](auto& f) { f.train_labels = labels(256, 10); },
                    {"train-labels.idx1-ubyte", "10"}},
        broken_data{"swapped_files",
                    [](auto& f) { std::swap(f.train_images, f.train_labels); },
                    {"train-images.idx3-ubyte"}},
        broken_data{"little_endian",
                    [](auto& f) { std::swap(f.test_images[0], f.test_images[3]); },
                    {"t10k-images.idx3-ubyte"}},
        broken_data{
            "no_samples", [](auto& f) { f.train_images = images(0); }, {"train-images.idx3-ubyte"}},
        broken_data{"damaged_gzip",
                    [](auto& f) { f.train_images = "\x1f\x8b\x08 not really"; },
                    {"train-images.idx3-ubyte"}},
        broken_data{
            "short_header", [](auto& f) { f.test_labels.resize(3); }, {"t10k-labels.idx1-ubyte"}},
        broken_data{"C32_fewer_samples_than_a_batch",
                    [](auto& f) {
                      f.train_images = images(100);
                      f.train_labels = labels(100);
                    },
                    {"100", "128"}},
        broken_data{"too_many_dimensions",
                    [](auto& f) { f.train_labels = images(256); },
                    {"train-labels.idx1-ubyte"}}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ftrt::test
