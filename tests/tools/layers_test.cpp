#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <tests/support/environment.hpp>
#include <tests/support/temporary_folder.hpp>
#include <tests/tools/layer_rules.hpp>

namespace ftrt::testing {

void PrintTo(const violation& v, std::ostream* out) {
  *out << '\n' << v.file << ':' << v.line << ": " << v.what;
}

namespace {

namespace fs = std::filesystem;
using test::source_tree;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- the house
// -----------------------------------------------------------------------------------

TEST(layers, the_tree_is_found_and_scanned) {
  EXPECT_GT(sources_of(source_tree()).size(), 50u) << "in " << source_tree();
}

TEST(layers, no_room_includes_what_it_must_not) {
  EXPECT_THAT(check_includes(source_tree()), IsEmpty());
}

TEST(layers, no_source_is_longer_than_a_room_should_be) {
  EXPECT_THAT(check_sizes(source_tree()), IsEmpty());
}

// ---- the checks themselves can fail
// --------------------------------------------------------------

class fake_tree : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& content) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream{root_ / file} << content;
  }

  // What check_includes() says of a tree with this one file.
  std::vector<violation> including(const fs::path& file, const std::string& line) const {
    write(file, "#pragma once\n" + line + "\n");
    auto found = check_includes(root_);
    fs::remove(root_ / file);
    return found;
  }

  void expect_broken(const fs::path& file, const std::string& line) const {
    const auto found = including(file, line);
    ASSERT_FALSE(found.empty()) << file << " may say: " << line;
    EXPECT_EQ(found[0].file, file.generic_string());
    EXPECT_EQ(found[0].line, 2u);
  }
  void expect_fine(const fs::path& file, const std::string& line) const {
    EXPECT_THAT(including(file, line), IsEmpty()) << file << " must not say: " << line;
  }

  const test::temporary_folder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(fake_tree, caf_outside_of_the_actors_is_found) {
  for (const auto* file :
       {"runtime/a.cpp", "runtime/worker/b.hpp", "storage/a.cpp", "schemas/protocol/a.hpp",
        "include/ftrt/a.hpp", "tools/ftrt/a.cpp", "tools/worker/a.cpp"}) {
    expect_broken(file, "#include <caf/actor.hpp>");
  }
  expect_fine("actors/a.cpp", "#include <caf/actor.hpp>");
  expect_fine("tests/actors/a.cpp", "#include <caf/actor.hpp>");
}

TEST_F(fake_tree, libtorch_outside_of_the_worker_half_is_found) {
  for (const auto* file : {"actors/control/a.cpp", "storage/a.hpp", "schemas/a.cpp",
                           "include/ftrt/run.hpp", "tools/ftrt/a.cpp"}) {
    expect_broken(file, "#include <torch/nn.h>");
    expect_broken(file, "#include <ATen/core/Tensor.h>");
    expect_broken(file, "#include <c10/util/Half.h>");
    expect_broken(file, "#include <ftrt/model.hpp>");
    expect_broken(file, "#include <ftrt/worker.hpp>");
  }
  expect_fine("runtime/a.cpp", "#include <ATen/core/Tensor.h>");
  expect_fine("include/ftrt/model.hpp", "#include <ATen/core/Tensor.h>");
  expect_fine("include/ftrt/worker_main.hpp", "#include <ATen/core/Tensor.h>");
}

TEST_F(fake_tree, the_two_halves_meeting_is_found) {
  expect_broken("actors/a.cpp", "#include <runtime/training/trainer.hpp>");
  expect_broken("runtime/a.cpp", "#include <actors/recovery/machine.hpp>");
  expect_fine("actors/a.cpp", "#include <schemas/protocol/messages.hpp>");
  expect_fine("runtime/a.cpp", "#include <storage/snapshot.hpp>");
}

TEST_F(fake_tree, a_lower_room_that_looks_up_is_found) {
  expect_broken("storage/a.cpp", "#include <actors/recovery/machine.hpp>");
  expect_broken("storage/a.cpp", "#include <runtime/training/trainer.hpp>");
  expect_broken("schemas/a.cpp", "#include <storage/snapshot.hpp>");
  expect_broken("include/ftrt/a.hpp", "#include <schemas/state_layout.hpp>");
}

TEST_F(fake_tree, a_command_that_reaches_behind_the_face_is_found) {
  for (const auto* room : {"actors/a.hpp", "runtime/a.hpp", "storage/a.hpp", "schemas/a.hpp"}) {
    expect_broken("tools/ftrt/main.cpp", "#include <" + std::string{room} + ">");
  }
  expect_fine("tools/ftrt/main.cpp", "#include <ftrt/run.hpp>");
  expect_fine("tools/ftrt/main.cpp", "#include <tools/ftrt/table.hpp>");
}

TEST_F(fake_tree, an_example_that_reaches_behind_the_face_is_found) {
  expect_broken("examples/embed/main.cpp", "#include <schemas/state_layout.hpp>");
  expect_fine("examples/embed/main.cpp", "#include <ftrt/run.hpp>");
}

TEST_F(fake_tree, a_header_that_includes_everything_is_found) {
  expect_broken("runtime/a.hpp", "#include <torch/torch.h>");
  expect_broken("tests/runtime/a.hpp", "#include <torch/torch.h>");
  expect_broken("actors/a.hpp", "#include <caf/all.hpp>");
  expect_fine("runtime/a.cpp", "#include <torch/torch.h>");
}

TEST_F(fake_tree, an_include_in_another_spelling_is_found_too) {
  write("actors/recovery/machine.hpp", "");
  expect_broken("runtime/a.cpp", "  #  include \"../actors/recovery/machine.hpp\"");
  expect_broken("runtime/a.cpp", "#include <schemas/../actors/recovery/machine.hpp>");
  expect_broken("runtime/a.cpp", "#include\"actors/recovery/machine.hpp\"");
  expect_fine("runtime/a.cpp", "// #include <actors/recovery/machine.hpp>");
}

TEST_F(fake_tree, a_source_that_is_too_long_is_found) {
  std::string lines;
  for (int i = 0; i < 350; ++i) lines += "\n";
  write("storage/fits.cpp", lines);
  EXPECT_THAT(check_sizes(root_), IsEmpty());
  write("tests/storage/long.cpp", lines + "\n");
  const auto found = check_sizes(root_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].file, "tests/storage/long.cpp");
  EXPECT_THAT(found[0].what, HasSubstr("351 lines"));
}

TEST_F(fake_tree, a_folder_without_a_readme_is_found) {
  write("storage/a.cpp", "");
  write("storage/README.md", "");
  write("storage/deeper/a.cpp", "");
  write("tests/storage/a.cpp", "");
  const auto found = check_readmes(root_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, "storage/deeper");
  EXPECT_EQ(found[1].file, "tests");
}

}  // namespace
}  // namespace ftrt::testing
